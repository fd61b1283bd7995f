/* tbe_dynamic.c - groups of tables whose ids are any 64-bit number: the index
 * of each says where an id's row is, and who is new gets the next one.
 *
 * What becomes of an id does not depend on which row it gets: initial weights
 * and the rounding of 16-bit rows are those of its number, and gradients of a
 * row are summed in the order of the batch. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "sparse/index.h"
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

ts_err ts_tbe_index_create(ts_tbe *t) {
  if (!ts_table_is_dynamic(t->tables[0].config)) return TS_OK;
  if (t->discrete)
    return ts_fail(
        TS_ERR_DECK,
        "table %s: rows = \"dynamic\" is for run.backend = \"host\": "
        "ids of a GPU's tables are rows",
        t->tables[0].config->name);
  TS_DO(ts_mem_many(t->index, t->n_tables, MISC));
  if (t->dtype != TS_F32)
    TS_DO(ts_mem_many(t->row_id, t->row_base[t->n_tables], SPARSE));
  for (int32_t i = 0; i < t->n_tables; i++)
    TS_DO(ts_index_create(&t->index[i], 1, t->tables[i].n_rows - 1));
  return TS_OK;
}

void ts_tbe_index_destroy(ts_tbe *t) {
  for (int32_t i = 0; t->index && i < t->n_tables; i++)
    ts_index_destroy(t->index[i]);
  ts_mem_free(t->index);
  ts_mem_free(t->row_id);
}

bool ts_tbe_is_dynamic(const ts_tbe *t) {
  return t->index != NULL;
}

struct ts_index *ts_tbe_index(ts_tbe *t, int32_t i) {
  return t->index ? t->index[i] : NULL;
}

/* Ids that are placed at a time. */
enum { SOME = 1024 };

/* Rows ROW[PLACE[k]] (n) of table I are IDS[PLACE[k]]'s from now on. */
static void note_ids(ts_tbe *t, int32_t i, const uint32_t *row,
                     const int64_t *ids, const int64_t *place, int64_t n) {
  for (int64_t k = 0; t->row_id && k < n; k++)
    t->row_id[t->row_base[i] + row[place[k]]] = ids[place[k]];
}

ts_err ts_tbe_learn(ts_tbe *t, int32_t i, const int64_t *ids, int64_t n) {
  int64_t fresh[SOME], n_fresh;
  uint32_t row[SOME];
  ts_index_destroy(t->index[i]);
  t->index[i] = NULL;
  TS_DO(ts_index_create(&t->index[i], 1, t->tables[i].n_rows - 1));
  for (int64_t k = 0; k < n; k += SOME) {
    const int64_t m = n - k < SOME ? n - k : SOME;
    TS_DO(ts_index_insert(t->index[i], row, ids + k, m, fresh, &n_fresh));
    note_ids(t, i, row, ids + k, fresh, n_fresh);
  }
  return TS_OK;
}

static ts_err full(const ts_tbe *t, int32_t i, const int64_t *id) {
  const ts_table_config *c = t->tables[i].config;
  return ts_fail(TS_ERR_DATA,
                 "table %s is full: there is no row for id %lld (capacity = "
                 "%lld, of which this rank has %lld)",
                 c->name, (long long)*id, (long long)c->capacity,
                 (long long)ts_index_n(t->index[i]));
}

static ts_err learn_some(ts_tbe *t, int32_t i, uint32_t *row,
                         const int64_t *ids, int64_t n) {
  int64_t fresh[SOME], n_fresh;
  TS_DO(ts_index_insert(t->index[i], row, ids, n, fresh, &n_fresh));
  note_ids(t, i, row, ids, fresh, n_fresh);
  ts_tbe_draw(t, i, row, ids, fresh, n_fresh);
  for (int64_t k = 0; k < n; k++)
    if (row[k] == TS_INDEX_NONE) return full(t, i, &ids[k]);
  return TS_OK;
}

ts_err ts_tbe_place(ts_tbe *t, int32_t feature, int32_t *rows, const void *ids,
                    int64_t n, bool learn) {
  const int32_t i = t->feature_table[feature];
  int64_t id[SOME];
  uint32_t row[SOME];
  for (int64_t k = 0; k < n; k += SOME) {
    const int64_t m = n - k < SOME ? n - k : SOME;
    memcpy(id, (const char *)ids + 8 * k, (size_t)m * 8);
    if (learn)
      TS_DO(learn_some(t, i, row, id, m));
    else
      ts_index_find(t->index[i], row, id, m);
    for (int64_t j = 0; j < m; j++)
      rows[k + j] = row[j] == TS_INDEX_NONE ? 0 : (int32_t)row[j];
  }
  return TS_OK;
}
