/* tbe_init.c - initial weights: drawn by the host, by what they are for, and
 * copied up in bounded pieces where the device has memory of its own. */
#include <math.h>
#include <string.h>

#include "base/few_bits.h"
#include "base/mem.h"
#include "base/rng.h"
#include "runtime/staging.h"
#include "sparse/tbe_impl.h"

typedef enum { INIT_UNIFORM, INIT_NORMAL, INIT_CONSTANT } ts_init_kind;

/* Rows of one table. */
typedef struct ts_init {
  const ts_tbe *tbe;
  int32_t table; /* of the group */
  ts_init_kind kind;
  float scale;
  size_t row_bytes;
} ts_init;

static ts_init init_of(const ts_tbe *t, int32_t i) {
  const ts_table_config *c = t->tables[i].config;
  const char *kind = c->init_kind ? c->init_kind : "uniform";
  ts_init init = {.tbe = t,
                  .table = i,
                  .kind = !strcmp(kind, "normal")     ? INIT_NORMAL
                          : !strcmp(kind, "constant") ? INIT_CONSTANT
                                                      : INIT_UNIFORM,
                  .row_bytes = (size_t)ts_row_bytes(t->dtype, t->dim)};
  init.scale = c->init_scale == 0 && init.kind != INIT_CONSTANT
                   ? (float)(1.0 / sqrt((double)c->rows))
                   : (float)c->init_scale;
  return init;
}

/* One row, by (seed, table, global row, column). */
static void init_row(float *w, const ts_init *x, int64_t row) {
  const ts_tbe *t = x->tbe;
  const int32_t col0 = t->first_col[x->table];
  for (int32_t d = 0; d < t->dim; d += 4) {
    uint32_t r[4];
    double normal[4];
    ts_rng4(r, t->seed, TS_RNG_TABLE_INIT, (uint64_t)row,
            (uint32_t)t->table_id[x->table], (uint32_t)((col0 + d) / 4));
    if (x->kind == INIT_NORMAL) {
      ts_rng_normal2(normal, r[0], r[1]);
      ts_rng_normal2(normal + 2, r[2], r[3]);
    }
    for (int k = 0; k < 4 && d + k < t->dim; k++)
      w[d + k] = x->kind == INIT_CONSTANT ? x->scale
                 : x->kind == INIT_NORMAL
                     ? x->scale * (float)normal[k]
                     : x->scale * (2 * ts_rng_unit(r[k]) - 1);
  }
}

/* Rows [first, first + n) of the shard to TO. */
static void init_rows(const ts_init *x, char *to, int64_t first, int64_t n) {
  const ts_tbe *t = x->tbe;
#pragma omp parallel for schedule(static)
  for (int64_t row = 0; row < n; row++) {
    float w[t->dim];
    init_row(w, x, t->first_row[x->table] + first + row);
    ts_rows_from_f32(to + (size_t)row * x->row_bytes, w, t->dtype, 1, t->dim);
  }
}

/* The rows lie where the host may not write: through SOME, memory of the
 * host. */
static ts_err init_apart(const ts_init *x, char *to, ts_staging *s, char *some,
                         int64_t n_some) {
  const int64_t n_rows = x->tbe->tables[x->table].n_rows;
  for (int64_t first = 0; first < n_rows; first += n_some) {
    const int64_t n = n_rows - first < n_some ? n_rows - first : n_some;
    init_rows(x, some, first, n);
    TS_DO(ts_staging_put(s, to + (size_t)first * x->row_bytes, some,
                         (size_t)n * x->row_bytes));
  }
  return TS_OK;
}

void ts_tbe_draw(ts_tbe *t, int32_t i, void *to, const uint32_t *row,
                 const int64_t *ids, const int64_t *place, int64_t n) {
  enum { MANY = 64 }; /* below that threads cost more */
  const ts_init x = init_of(t, i);
#pragma omp parallel for schedule(static) if (n >= MANY)
  for (int64_t j = 0; j < n; j++) {
    const size_t at = row ? row[place[j]] : (size_t)j;
    float w[t->dim];
    init_row(w, &x, ids[place[j]]);
    ts_rows_from_f32((char *)to + at * x.row_bytes, w, t->dtype, 1, t->dim);
  }
}

static ts_err init_table(ts_tbe *t, int32_t i, ts_staging *s) {
  ts_err err = TS_OK;
  const ts_init x = init_of(t, i);
  const size_t fit = TS_STAGING_PIECE / x.row_bytes;
  const int64_t n_some = fit > 0 ? (int64_t)fit : 1;
  char *some = NULL;
  char *to = ts_tbe_rows(t, i, -1, &(int32_t){0}, &(ts_dtype){0});
  if (!ts_staging_is_remote(s, to)) {
    init_rows(&x, to, 0, t->tables[i].n_rows);
    return TS_OK;
  }
  TS_TRY(ts_mem_alloc(&some, (size_t)n_some * x.row_bytes, TS_TAG_MISC));
  TS_TRY(init_apart(&x, to, s, some, n_some));
done:
  ts_mem_free(some);
  return err;
}

ts_err ts_tbe_init(ts_tbe *t) {
  ts_err err = TS_OK;
  ts_staging staging = {0};
  TS_TRY(ts_staging_create(&staging, t->device));
  for (int32_t i = 0; !t->index && i < t->n_tables; i++)
    TS_TRY(init_table(t, i, &staging));
  TS_TRY(ts_tbe_reload(t));
done:
  ts_staging_reset(&staging);
  return err;
}
