/* index_list.c - all ids of an index, by ascending key.
 *
 * By row, where ids lie one after another; they are dealt by the top bits of
 * their keys, and what is then beside each other is sorted in place. */
#include "sparse/index_impl.h"

#include "base/mem.h"

/* By ascending key, in place.  Runs are a few ids, but whoever chooses ids may
 * make one long: the gaps keep that from taking N^2 steps. */
static void sort_run(int64_t *ids, uint32_t *row, int64_t n) {
  int64_t gap = 1;
  while (gap < n / 3) gap = 3 * gap + 1;
  for (; gap > 0; gap /= 3)
    for (int64_t i = gap; i < n; i++) {
      const int64_t id = ids[i];
      const uint32_t r = row[i];
      const uint64_t key = ts_index_key(id);
      int64_t j = i;
      for (; j >= gap && ts_index_key(ids[j - gap]) > key; j -= gap) {
        ids[j] = ids[j - gap];
        row[j] = row[j - gap];
      }
      ids[j] = id;
      row[j] = r;
    }
}

/* IS_FREE: a bit a row.  Counts or, where IDS is given, places ids by the top
 * bits of their keys; START[1 + those bits]. */
static void deal(const ts_index *x, const uint8_t *is_free, int shift,
                 uint32_t *start, int64_t *ids, uint32_t *row) {
  for (int64_t r = 0; r < x->n_used; r++) {
    if (is_free[r / 8] >> r % 8 & 1) continue;
    const uint32_t at = start[1 + (ts_index_key(x->id[r]) >> shift)]++;
    if (!ids) continue;
    ids[at] = x->id[r];
    row[at] = in_shard(x, (uint32_t)r);
  }
}

/* *IS_FREE: a bit a row, owned by the caller. */
static ts_err find_free(const ts_index *x, uint8_t **is_free) {
  TS_DO(ts_mem_many(*is_free, (x->n_used + 7) / 8 + 1, SPARSE));
  for (uint32_t r = x->free; r != TS_INDEX_NONE; r = (uint32_t)x->id[r])
    (*is_free)[r / 8] |= (uint8_t)(1 << r % 8);
  return TS_OK;
}

ts_err ts_index_list_any(const ts_index *x, int64_t *ids, uint32_t *row) {
  uint8_t *is_free = NULL;
  int64_t n = 0;
  TS_DO(find_free(x, &is_free));
  for (int64_t r = 0; r < x->n_used; r++) {
    if (is_free[r / 8] >> r % 8 & 1) continue;
    ids[n] = x->id[r];
    row[n++] = in_shard(x, (uint32_t)r);
  }
  ts_mem_free(is_free);
  return TS_OK;
}

/* Dealt by the top bits of keys into runs of about four, if these are even; a
 * shard has only some parts, so that its runs are longer, but fewer. */
ts_err ts_index_list(const ts_index *x, int64_t *ids, uint32_t *row) {
  int bits = TS_INDEX_PART_BITS;
  uint8_t *is_free = NULL;
  uint32_t *start = NULL;
  ts_err err;
  while (bits < 32 && INT64_C(4) << bits < x->n) bits++;
  const int64_t n_runs = INT64_C(1) << bits;
  TS_TRY(find_free(x, &is_free));
  TS_TRY(ts_mem_many(start, n_runs + 1, SPARSE));
  deal(x, is_free, 64 - bits, start, NULL, NULL);
  /* Of counts, begins: each a place later than its own, where the next deal
   * turns them into ends, which are the begins of the runs after them. */
  uint32_t sum = 0;
  for (int64_t k = 1; k <= n_runs; k++) {
    const uint32_t here = start[k];
    start[k] = sum;
    sum += here;
  }
  deal(x, is_free, 64 - bits, start, ids, row);
  for (int64_t k = 0; k < n_runs; k++)
    sort_run(ids + start[k], row + start[k], start[k + 1] - start[k]);
done:
  ts_mem_free_all(is_free, start);
  return err;
}
