/* tbe_dynamic.c - groups of tables whose ids are any 64-bit number: the index
 * of each says where an id's row is, and who is new gets the next one.
 *
 * What becomes of an id does not depend on which row it gets: initial weights
 * and the rounding of rows that are not f32 are those of its number, and
 * gradients of a row are summed in the order of the batch. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "sparse/admit.h"
#include "sparse/mirror.h"
#include "sparse/tbe_impl.h"

/* Keys are spread like balls over bins: a shard of N gets more than N and
 * 8 times the root of N once in 10^15 times. */
int64_t ts_tbe_rows_of(const ts_table_config *c, int64_t n_rows) {
  enum { DEVIATIONS = 8, LEAST = 64 };
  if (!ts_table_is_dynamic(c)) return n_rows;
  const int64_t more =
      n_rows + LEAST + (int64_t)(DEVIATIONS * sqrt((double)n_rows));
  return 1 + (more < c->capacity ? more : c->capacity);
}

static ts_err admit_create(ts_admit **out, const ts_tbe_table *x) {
  const ts_table_config *c = x->config;
  if (!ts_table_admits(c)) return TS_OK;
  return ts_admit_create(out,
                         &(ts_admit_spec){.first_part = x->first_part,
                                          .n_parts = x->n_parts,
                                          .lines = ts_table_sketch_lines(c),
                                          .least = c->admit.min_count});
}

static ts_err index_create(ts_tbe *t, int32_t i) {
  TS_DO(ts_index_create(&t->index[i], TS_INDEX_FIRST_ROW,
                        t->tables[i].n_rows - TS_INDEX_FIRST_ROW));
  if (t->discrete) ts_index_watch(t->index[i]);
  return TS_OK;
}

int64_t ts_tbe_given(const ts_tbe *t, int32_t i) {
  return t->given ? t->given[i] : t->tables[i].n_rows;
}

ts_err ts_tbe_give(ts_tbe *t, int32_t i, int64_t n) {
  const ts_tbe_table *x = &t->tables[i];
  const int64_t had = ts_tbe_given(t, i);
  if (n <= had) return TS_OK;
  const double more = (double)had * x->config->grow;
  int64_t to = more < (double)x->n_rows ? (int64_t)more : x->n_rows;
  if (to < n) to = n;
  ts_err err = t->tier->ops->give(t->tier, t->row_base[i] + had, to - had);
  if (err == TS_ERR_NOMEM && to > n) { /* as few as are needed now */
    ts_err_clear();
    to = n;
    err = t->tier->ops->give(t->tier, t->row_base[i] + had, to - had);
  }
  if (err == TS_OK) t->given[i] = to;
  return err;
}

/* A sixteenth of each. */
static ts_err begin_to_grow(ts_tbe *t) {
  enum { PART = 16 };
  if (!(t->tables[0].config->grow > 0) || !t->tier->ops->give) return TS_OK;
  TS_DO(ts_mem_many(t->given, t->n_tables, MISC));
  for (int32_t i = 0; i < t->n_tables; i++)
    TS_DO(ts_tbe_give(t, i, 1 + t->tables[i].n_rows / PART));
  return TS_OK;
}

ts_err ts_tbe_index_create(ts_tbe *t) {
  if (!ts_table_is_dynamic(t->tables[0].config)) return TS_OK;
  const int64_t n_rows = t->row_base[t->n_tables];
  TS_DO(begin_to_grow(t));
  TS_DO(ts_mem_many(t->index, t->n_tables, MISC));
  TS_DO(ts_mem_many(t->admit, t->n_tables, MISC));
  TS_DO(ts_mem_many(t->born, n_rows, SPARSE));
  if (ts_table_evicts(t->tables[0].config)) {
    TS_DO(ts_mem_many(t->seen, n_rows, SPARSE));
    TS_DO(ts_mem_many(t->last, n_rows, SPARSE));
  }
  if (ts_table_scores(t->tables[0].config))
    TS_DO(ts_mem_many(t->score, n_rows, SPARSE));
  if (t->dtype != TS_F32 && !t->discrete)
    TS_DO(ts_mem_many(t->row_id, n_rows, SPARSE));
  for (int32_t i = 0; i < t->n_tables; i++) TS_DO(index_create(t, i));
  for (int32_t i = 0; i < t->n_tables; i++)
    TS_DO(admit_create(&t->admit[i], &t->tables[i]));
  for (int32_t i = 0; i < t->n_tables && !t->firsts.ptr; i++)
    if (t->admit[i])
      TS_DO(ts_buffer_create(&t->firsts, t->device, (size_t)t->n_tables * 8,
                             TS_SPACE_DEVICE, TS_TAG_SPARSE));
  return ts_mirror_create(t);
}

void ts_tbe_index_destroy(ts_tbe *t) {
  for (int32_t i = 0; t->index && i < t->n_tables; i++)
    ts_index_destroy(t->index[i]);
  for (int32_t i = 0; t->admit && i < t->n_tables; i++)
    ts_admit_destroy(t->admit[i]);
  ts_mirror_destroy(t->mirror);
  ts_buffer_reset(&t->firsts);
  ts_mem_free_all(t->index, t->admit, t->born, t->seen, t->last, t->score,
                  t->row_id, t->given);
}

bool ts_tbe_is_dynamic(const ts_tbe *t) {
  return t->index != NULL;
}

ts_tbe_ids ts_tbe_ids_of(ts_tbe *t, int32_t i) {
  const int64_t base = t->row_base[i];
  return (ts_tbe_ids){.index = t->index[i],
                      .admit = t->admit[i],
                      .born = t->born + base,
                      .seen = t->seen ? t->seen + base : NULL,
                      .last = t->last ? t->last + base : NULL,
                      .score = t->score ? t->score + base : NULL};
}

/* Rows AT (n_tables) of weights (K -1) or a state, in whatever memory kernels
 * see them, are 0.  LINES: at their places in a cached tier. */
static ts_err clear(const ts_tbe *t, int k, const uint32_t *at, bool lines) {
  ts_tier *tier = t->tier;
  const ts_tier_ops *ops = tier->ops;
  const bool wide = k < 0 || !t->optim->state[k].per_row;
  const int64_t bytes =
      ts_row_bytes(k < 0 ? t->dtype : TS_F32, wide ? t->dim : 1);
  const uint32_t first = lines && ops->lines ? ops->first_line(tier) : 0;
  ts_put_rows_args a = {.to = k < 0 ? ops->weights(tier)
                                    : (void *)ops->state(tier, k),
                        .rows = at,
                        .n = t->n_tables,
                        .row_bytes = bytes,
                        .high = first};
  TS_DO(t->kernels->put_rows(&a));
  if (!first) return TS_OK;
  a.low = first;
  a.high = 0;
  a.to = ops->lines(tier, k);
  return t->kernels->put_rows(&a);
}

/* Gradients of ids that were not admitted have changed row 0. */
ts_err ts_tbe_met(ts_tbe *t) {
  const bool cached = t->tier->ops->cached;
  uint32_t first[t->n_tables];
  uint32_t *keys = t->firsts.ptr, *at = keys ? keys + t->n_tables : NULL;
  if (!keys) return TS_OK;
  for (int32_t i = 0; i < t->n_tables; i++) first[i] = (uint32_t)t->row_base[i];
  TS_DO(t->kernels->put(keys, first, sizeof first));
  if (cached) TS_DO(t->tier->ops->locate(t->tier, at, keys, t->n_tables));
  for (int k = -1; k < t->optim->n_states; k++) {
    const bool row = k >= 0 && t->optim->state[k].per_row;
    TS_DO(clear(t, k, cached && !row ? at : keys, cached && !row));
  }
  return TS_OK;
}

enum { SOME = TS_TBE_SOME }; /* ids that are placed at a time */

/* Rows ROW[PLACE[k]] (n) of table I are IDS[PLACE[k]]'s from now on, which
 * BATCH has brought. */
static void note_ids(ts_tbe *t, int32_t i, const uint32_t *row,
                     const int64_t *ids, const int64_t *place, int64_t n,
                     uint32_t batch) {
  for (int64_t k = 0; k < n; k++) {
    const int64_t at = t->row_base[i] + row[place[k]];
    t->born[at] = batch;
    if (t->seen) t->seen[at] = t->last[at] = 0;
    if (t->score) t->score[at] = 0;
    if (t->row_id) t->row_id[at] = ids[place[k]];
  }
}

ts_err ts_tbe_learn(ts_tbe *t, int32_t i, const int64_t *ids, int64_t n) {
  int64_t fresh[SOME], n_fresh;
  uint32_t row[SOME];
  if (t->admit[i]) ts_admit_restart(t->admit[i]);
  ts_index_destroy(t->index[i]);
  t->index[i] = NULL;
  TS_DO(index_create(t, i));
  for (int64_t k = 0; k < n; k += SOME) {
    const int64_t m = n - k < SOME ? n - k : SOME;
    TS_DO(ts_index_insert(t->index[i], row, ids + k, m, fresh, &n_fresh));
    note_ids(t, i, row, ids + k, fresh, n_fresh, 0);
  }
  return TS_OK;
}

static ts_err full(const ts_tbe *t, int32_t i, const int64_t *id) {
  const ts_table_config *c = t->tables[i].config;
  return ts_fail(TS_ERR_NOMEM,
                 "table %s is full: there is no row for id %lld (capacity = "
                 "%lld, of which this rank has %lld)",
                 c->name, (long long)*id, (long long)c->capacity,
                 (long long)ts_index_n(t->index[i]));
}

void ts_tbe_begin_rows(ts_tbe *t, int32_t i, int k, const ts_new_ids *new) {
  int32_t cols;
  ts_dtype dtype;
  char *rows = ts_tbe_rows(t, i, k, &cols, &dtype);
  const size_t bytes = (size_t)ts_row_bytes(dtype, cols);
  if (k < 0) ts_tbe_draw(t, i, rows, new->row, new->ids, new->fresh, new->n);
  for (int64_t j = 0; k >= 0 && j < new->n; j++)
    memset(rows + new->row[new->fresh[j]] * bytes, 0, bytes);
}

static ts_err learn_some(ts_tbe *t, int32_t i, uint32_t *row,
                         const int64_t *ids, int64_t n, uint32_t batch) {
  int64_t fresh[SOME], n_fresh, end = 0;
  TS_DO(ts_index_insert(t->index[i], row, ids, n, fresh, &n_fresh));
  note_ids(t, i, row, ids, fresh, n_fresh, batch);
  for (int64_t k = 0; k < n_fresh; k++)
    if (row[fresh[k]] >= end) end = (int64_t)row[fresh[k]] + 1;
  TS_DO(ts_tbe_give(t, i, end));
  const ts_new_ids new = {row, ids, fresh, n_fresh};
  if (t->mirror) TS_DO(ts_mirror_add(t, i, &new, batch));
  for (int k = -1; !t->mirror && k < t->optim->n_states; k++)
    ts_tbe_begin_rows(t, i, k, &new);
  for (int64_t k = 0; k < n; k++)
    if (row[k] == TS_INDEX_NONE) return full(t, i, &ids[k]);
  return TS_OK;
}

/* The same, of a table that does not admit all; the others have row 0. */
static ts_err admit_some(ts_tbe *t, int32_t i, uint32_t *row,
                         const int64_t *ids, int64_t n, uint32_t batch) {
  int64_t some[SOME], n_some = 0;
  bool may[SOME];
  uint32_t got[SOME];
  TS_DO(ts_admit_ask(t->admit[i], may, ids, n));
  for (int64_t k = 0; k < n; k++)
    if (may[k]) some[n_some++] = ids[k];
  TS_DO(learn_some(t, i, got, some, n_some, batch));
  n_some = 0;
  for (int64_t k = 0; k < n; k++) row[k] = may[k] ? got[n_some++] : 0;
  return TS_OK;
}

ts_err ts_tbe_place_new(ts_tbe *t, int32_t i, uint32_t *row, const int64_t *ids,
                        int64_t n, uint32_t batch) {
  return t->admit[i] ? admit_some(t, i, row, ids, n, batch)
                     : learn_some(t, i, row, ids, n, batch);
}

void ts_tbe_come(ts_tbe *t, uint32_t batch, bool again) {
  for (int32_t i = 0; i < t->n_tables; i++)
    if (t->admit[i]) ts_admit_begin(t->admit[i], batch, again);
}

/* Finds go beside each other: on all of the lane's threads. */
static void find_all(const ts_index *x, int32_t *rows, const char *ids,
                     int64_t n) {
#pragma omp parallel for schedule(static) if (n > SOME)
  for (int64_t k = 0; k < n; k += SOME) {
    const int64_t m = n - k < SOME ? n - k : SOME;
    int64_t id[SOME];
    uint32_t row[SOME];
    memcpy(id, ids + 8 * k, (size_t)m * 8);
    ts_index_find(x, row, id, m);
    for (int64_t j = 0; j < m; j++)
      rows[k + j] = row[j] == TS_INDEX_NONE ? 0 : (int32_t)row[j];
  }
}

/* A batch that is not learnt from comes before those that are ahead. */
static void hide(const ts_tbe *t, int32_t i, int32_t *rows, int64_t n,
                 uint32_t ahead) {
  const uint32_t *born = t->born + t->row_base[i];
  for (int64_t k = 0; k < n; k++)
    if (born[rows[k]] >= ahead) rows[k] = 0;
}

/* Who has a row keeps it whatever is inserted, so that only those who have none
 * are, in the order of IDS. */
ts_err ts_tbe_place(ts_tbe *t, int32_t feature, int32_t *rows, const void *ids,
                    int64_t n, uint32_t batch, uint32_t ahead) {
  const int32_t i = t->feature_table[feature];
  int64_t id[SOME], at[SOME], m = 0;
  uint32_t row[SOME];
  find_all(t->index[i], rows, ids, n);
  if (!batch && ahead) hide(t, i, rows, n, ahead);
  for (int64_t k = 0; batch && k < n; k++) {
    if (!rows[k]) {
      memcpy(&id[m], (const char *)ids + 8 * k, 8);
      at[m++] = k;
    }
    if (m < SOME && k + 1 < n) continue;
    TS_DO(ts_tbe_place_new(t, i, row, id, m, batch));
    while (m > 0) m--, rows[at[m]] = (int32_t)row[m];
  }
  return TS_OK;
}

ts_err ts_tbe_drop_lines(ts_tbe *t) {
  if (!ts_tbe_is_cached(t)) return TS_OK;
  TS_DO(ts_tbe_flush(t));
  return ts_tbe_reload(t);
}

static ts_err forget(ts_tbe *t, int32_t i, uint32_t first) {
  const ts_tbe_ids have = ts_tbe_ids_of(t, i);
  const int64_t n = ts_index_n(have.index);
  int64_t *ids = NULL;
  uint32_t *rows = NULL;
  ts_err err;
  TS_TRY(ts_mem_many(ids, n + 1, SPARSE));
  TS_TRY(ts_mem_many(rows, n + 1, SPARSE));
  TS_TRY(ts_index_list_any(have.index, ids, rows));
  for (int64_t k = 0; k < n; k++)
    if (have.born[rows[k]] >= first) (void)ts_index_erase(have.index, ids[k]);
  if (have.admit) ts_admit_forget(have.admit, first);
done:
  ts_mem_free_all(ids, rows);
  return err;
}

ts_err ts_tbe_forget(ts_tbe *t, uint32_t first) {
  for (int32_t i = 0; i < t->n_tables; i++) TS_DO(forget(t, i, first));
  return ts_tbe_drop_lines(t);
}
