/* fake_lines.c - rows of the fake device that lie in two places (lines of
 * ts_lookup_args and ts_row_update_args), for the host's kernels, which know
 * one: those that a call uses are brought together, and taken back. */
#include <stdlib.h>
#include <string.h>

#include "tests/support/fake_device.h"
#include "sparse/row_optim.h"

static ts_kernels inner;

static ts_err no_room(void) {
  return ts_fail(TS_ERR_NOMEM, "no memory for a fake device's rows");
}

/* ---- lookups ------------------------------------------------------------- */

typedef struct gathered {
  char *table;
  int32_t *rows;
  int64_t *base;
  ts_lookup_args a;
} gathered;

static void drop(gathered *g) {
  free(g->table);
  free(g->rows);
  free(g->base);
}

static ts_err gather(gathered *g, const ts_lookup_args *a) {
  const int64_t n = a->offsets[a->bag_start[a->n_features]];
  const int64_t bytes = ts_row_bytes(a->dtype, a->dim);
  g->table = malloc((size_t)(n * bytes + 1));
  g->rows = malloc((size_t)(n + 1) * sizeof *g->rows);
  g->base = calloc((size_t)a->n_features, sizeof *g->base);
  if (!g->table || !g->rows || !g->base) return no_room();
  for (int32_t f = 0; f < a->n_features; f++)
    for (int64_t i = a->offsets[a->bag_start[f]];
         i < a->offsets[a->bag_start[f + 1]]; i++) {
      const int64_t slot = a->row_base[f] + a->rows[i];
      const char *from =
          slot < a->first_line
              ? (const char *)a->weight + slot * bytes
              : (const char *)a->lines + (slot - a->first_line) * bytes;
      memcpy(g->table + i * bytes, from, (size_t)bytes);
      g->rows[i] = (int32_t)i;
    }
  g->a = *a;
  g->a.weight = g->table;
  g->a.rows = g->rows;
  g->a.row_base = g->base;
  g->a.lines = NULL;
  return TS_OK;
}

static ts_err lookup(const ts_lookup_args *a) {
  gathered g = {0};
  if (!a->lines) return inner.lookup(a);
  ts_err err = gather(&g, a);
  if (err == TS_OK) err = inner.lookup(&g.a);
  drop(&g);
  return err;
}

static ts_err weight_grad(const ts_weight_grad_args *a) {
  gathered g = {0};
  if (!a->bags->lines) return inner.weight_grad(a);
  ts_err err = gather(&g, a->bags);
  const ts_weight_grad_args with = {&g.a, a->out, a->grad};
  if (err == TS_OK) err = inner.weight_grad(&with);
  drop(&g);
  return err;
}

/* ---- updates ------------------------------------------------------------- */

/* One array, weights or a state of dim floats: entry j's row at j. */
typedef struct brought {
  char *rows, *lines, *table;
  int64_t bytes;
} brought;

typedef struct update {
  brought array[1 + TS_ROW_STATES_MAX];
  int n_arrays;
  uint32_t *place;
  ts_row_update_args a;
} update;

static char *row_at(const brought *b, const ts_row_update_args *a,
                    uint32_t place) {
  return place < a->first_line ? b->rows + place * b->bytes
                               : b->lines + (place - a->first_line) * b->bytes;
}

static void move(const update *u, const ts_row_update_args *a,
                 const uint32_t *keys, const uint32_t *place, int64_t n,
                 bool back) {
  for (int k = 0; k < u->n_arrays; k++)
    for (int64_t j = 0; j < n; j++) {
      const brought *b = &u->array[k];
      if (j && keys[j] == keys[j - 1]) continue;
      char *there = row_at(b, a, place ? place[j] : keys[j]);
      char *here = b->table + j * b->bytes;
      memcpy(back ? there : here, back ? here : there, (size_t)b->bytes);
    }
}

static ts_err add(update *u, void *rows, void *lines, int64_t bytes, int64_t n,
                  void *to) {
  brought *b = &u->array[u->n_arrays++];
  *b = (brought){rows, lines, malloc((size_t)(n * bytes + 1)), bytes};
  memcpy(to, &b->table, sizeof b->table);
  return b->table ? TS_OK : no_room();
}

static ts_err bring(update *u, const ts_row_update_args *a,
                    const uint32_t *keys, const uint32_t *place, int64_t n) {
  const int64_t bytes = ts_row_bytes(a->dtype, a->dim);
  u->a = *a;
  u->place = malloc((size_t)(n + 1) * sizeof *u->place);
  ts_err err = u->place ? TS_OK : no_room();
  if (err == TS_OK) err = add(u, a->weight, a->lines, bytes, n, &u->a.weight);
  for (int k = 0; k < a->optim->n_states && err == TS_OK; k++)
    if (!a->optim->state[k].per_row)
      err = add(u, a->state[k], a->line_state[k], 4 * (int64_t)a->dim, n,
                &u->a.state[k]);
  if (err != TS_OK) return err;
  for (int64_t j = 0; j < n; j++) u->place[j] = (uint32_t)j;
  move(u, a, keys, place, n, false);
  u->a.lines = NULL;
  return TS_OK;
}

static void end(update *u) {
  for (int k = 0; k < u->n_arrays; k++) free(u->array[k].table);
  free(u->place);
}

static ts_err row_update(const ts_row_update_args *a) {
  update u = {0};
  if (!a->lines || a->sum_out) return inner.row_update(a);
  ts_err err = bring(&u, a, a->keys, a->place, a->n);
  u.a.place = u.place;
  if (err == TS_OK) err = inner.row_update(&u.a);
  if (err == TS_OK) move(&u, a, a->keys, a->place, a->n, true);
  end(&u);
  return err;
}

static ts_err row_stage(const ts_row_stage_args *a) {
  update u = {0};
  if (!a->update->lines) return inner.row_stage(a);
  ts_err err = bring(&u, a->update, a->keys, a->place, a->n);
  ts_row_stage_args with = *a;
  with.update = &u.a;
  with.place = u.place;
  if (err == TS_OK) err = inner.row_stage(&with);
  if (err == TS_OK) move(&u, a->update, a->keys, a->place, a->n, true);
  end(&u);
  return err;
}

void ts_fake_lines(ts_kernels *host) {
  inner = *host;
  host->lookup = lookup;
  host->weight_grad = weight_grad;
  host->row_update = row_update;
  host->row_stage = row_stage;
}
