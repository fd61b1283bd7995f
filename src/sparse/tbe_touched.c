/* tbe_touched.c - which rows of a group were updated: a bit for each, set by
 * every update, for checkpoints that hold these rows alone. */
#include <string.h>

#include "base/mem.h"
#include "sparse/tbe_impl.h"

static size_t bits_bytes(int64_t n_rows) {
  return ((size_t)n_rows + 31) / 32 * 4;
}

ts_err ts_tbe_track(ts_tbe *t, ts_staging *staging) {
  TS_DO(ts_buffer_create(&t->touched, t->device,
                         bits_bytes(t->row_base[t->n_tables]) + 4,
                         TS_SPACE_DEVICE, TS_TAG_SPARSE));
  return ts_tbe_forget_touched(t, staging);
}

/* ---- updates, in tasks --------------------------------------------------- */

ts_err ts_tbe_mark(ts_tbe *t, const uint32_t *keys, int64_t n) {
  const ts_mark_rows_args a = {t->touched.ptr, keys, n};
  return t->touched.ptr && n ? t->kernels->mark_rows(&a) : TS_OK;
}

void ts_tbe_all_change(ts_tbe *t) {
  t->all_change = true;
}

/* ---- at rest ------------------------------------------------------------- */

static ts_err zero_task(void *p, ts_lane *lane) {
  (void)lane;
  ts_tbe *t = *(ts_tbe **)p;
  return t->kernels->zero(t->touched.ptr, t->touched.bytes);
}

ts_err ts_tbe_forget_touched(ts_tbe *t, ts_staging *staging) {
  if (!t->touched.ptr) return TS_OK;
  if (!ts_staging_is_remote(staging, t->touched.ptr)) {
    memset(t->touched.ptr, 0, t->touched.bytes);
    return TS_OK;
  }
  TS_DO(ts_lane_run(staging->lane, "forget rows", zero_task, t));
  return ts_lane_sync(staging->lane);
}

/* The bits of rows [FIRST, FIRST + N) of the group that are set, in WORDS that
 * begin with the one of FIRST: how many, and where ROWS is there which, counted
 * from FIRST. */
static int64_t find(const uint32_t *words, int64_t first, int64_t n,
                    uint32_t *rows) {
  const int64_t skip = first % 32;
  int64_t found = 0;
  for (int64_t at = -skip; at < n; at += 32, words++) {
    uint32_t word = *words;
    if (at < 0) word &= UINT32_MAX << skip;
    if (n - at < 32) word &= UINT32_MAX >> (32 - (n - at));
    if (!rows) found += __builtin_popcount(word);
    for (; rows && word; word &= word - 1)
      rows[found++] = (uint32_t)(at + __builtin_ctz(word));
  }
  return found;
}

static ts_err every(uint32_t **rows, int64_t n) {
  TS_DO(ts_mem_many(*rows, n, CHECKPOINT));
  for (int64_t i = 0; i < n; i++) (*rows)[i] = (uint32_t)i;
  return TS_OK;
}

ts_err ts_tbe_touched(ts_tbe *t, ts_staging *staging, int32_t i, int64_t row0,
                      int64_t n_rows, uint32_t **rows, int64_t *n) {
  ts_err err = TS_OK;
  const int64_t first = t->row_base[i] + row0;
  const size_t bytes = bits_bytes(first % 32 + n_rows);
  uint32_t *words = NULL;
  *rows = NULL;
  *n = n_rows;
  if (t->all_change) return every(rows, n_rows);
  TS_TRY(ts_mem_alloc(&words, bytes + 4, TS_TAG_CHECKPOINT));
  TS_TRY(ts_staging_get(staging, words, (uint32_t *)t->touched.ptr + first / 32,
                        bytes));
  *n = find(words, first, n_rows, NULL);
  TS_TRY(ts_mem_many(*rows, *n, CHECKPOINT));
  (void)find(words, first, n_rows, *rows);
done:
  ts_mem_free(words);
  return err;
}

/* ---- their rows ---------------------------------------------------------- */

/* From device memory, through scratch there: as many rows at a time as a piece
 * of the staging holds. */
typedef struct ts_taking {
  const ts_kernels *kernels;
  ts_take_rows_args a;
} ts_taking;

static ts_err take_task(void *p, ts_lane *lane) {
  const ts_taking *k = p;
  (void)lane;
  return k->kernels->take_rows(&k->a);
}

static ts_err take_remote(ts_tbe *t, ts_staging *staging,
                          const ts_take_rows_args *all) {
  ts_err err = TS_OK;
  const size_t row = (size_t)all->row_bytes;
  const int64_t fit = TS_STAGING_PIECE / all->row_bytes;
  const int64_t some = fit > 0 ? fit : 1;
  ts_buffer rows = {0}, out = {0};
  TS_TRY(ts_buffer_create(&rows, t->device, (size_t)some * 4, TS_SPACE_DEVICE,
                          TS_TAG_CHECKPOINT));
  TS_TRY(ts_buffer_create(&out, t->device, (size_t)some * row, TS_SPACE_DEVICE,
                          TS_TAG_CHECKPOINT));
  for (int64_t at = 0, n; at < all->n; at += n) {
    n = all->n - at < some ? all->n - at : some;
    const ts_taking k = {t->kernels,
                         {out.ptr, all->from, rows.ptr, n, all->row_bytes}};
    TS_TRY(ts_staging_put(staging, rows.ptr, all->rows + at, (size_t)n * 4));
    TS_TRY(ts_lane_run(staging->lane, "take rows", take_task, k));
    TS_TRY(ts_staging_get(staging, (char *)all->out + (size_t)at * row, out.ptr,
                          (size_t)n * row));
  }
done:
  ts_buffer_reset(&rows);
  ts_buffer_reset(&out);
  return err;
}

ts_err ts_tbe_take(ts_tbe *t, ts_staging *staging, void *out, int32_t i,
                   int state, int64_t row0, const uint32_t *rows, int64_t n) {
  int32_t cols;
  ts_dtype dtype;
  char *from = ts_tbe_rows(t, i, state, &cols, &dtype);
  const int64_t row = ts_row_bytes(dtype, cols);
  const ts_take_rows_args a = {out, from + row0 * row, rows, n, row};
  if (n && ts_staging_is_remote(staging, from))
    return take_remote(t, staging, &a);
  ts_take_rows(&a);
  return TS_OK;
}
