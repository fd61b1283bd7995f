/* tbe_keep.c - gradients of micro-batches: the sums of the rows that each one
 * touched are kept until the last one's backward pass, which takes them in as
 * if they were contributions to its rows.  So a row is updated once a step,
 * by the sum over all micro-batches. */
#include <string.h>

#include "base/mem.h"
#include "sparse/tbe_impl.h"

static ts_err grow(ts_tbe *t, int64_t n) {
  ts_err err = TS_OK;
  const size_t dim = (size_t)t->dim;
  const size_t old = (size_t)t->kept_max, rows = 2 * old + (size_t)n;
  if (n <= t->kept_max) return TS_OK;
  TS_TRY(ts_mem_resize(&t->kept_sums, old * dim * 4, rows * dim * 4,
                       TS_TAG_SPARSE));
  TS_TRY(ts_mem_resize(&t->kept_keys, old * 4, rows * 4, TS_TAG_SPARSE));
  t->kept_max = (int64_t)rows;
done:
  return err;
}

/* Adds this micro-batch's rows to those that are kept. */
static ts_err keep(ts_tbe *t, const float *grad, const ts_tbe_input *in) {
  ts_err err = TS_OK;
  const size_t dim = (size_t)t->dim;
  TS_TRY(ts_tbe_sum_batch(t, grad, in));
  const int64_t n = t->n_sums;
  TS_TRY(grow(t, t->n_kept + n));
  if (!n) goto done;
  memcpy(t->kept_sums + (size_t)t->n_kept * dim, t->sums.ptr,
         (size_t)n * dim * 4);
  memcpy(t->kept_keys + t->n_kept, t->sum_keys.ptr, (size_t)n * 4);
  t->n_kept += n;
done:
  return err;
}

typedef struct ts_keep_arg {
  ts_tbe *tbe;
  const float *grad;
  ts_tbe_input input;
} ts_keep_arg;

static ts_err keep_task(void *p, ts_lane *lane) {
  (void)lane;
  const ts_keep_arg *a = p;
  return keep(a->tbe, a->grad, &a->input);
}

ts_err ts_tbe_keep(ts_tbe *t, const float *grad, const ts_tbe_input *input,
                   ts_lane *lane) {
  ts_keep_arg arg = {t, grad, *input};
  return ts_lane_submit(lane, "keep rows", keep_task, &arg, sizeof arg);
}

void ts_tbe_drop(ts_tbe *t) {
  t->n_kept = 0;
}

ts_err ts_tbe_entries(ts_tbe *t, ts_row_update_args *a, const float *grad,
                      const ts_tbe_input *in) {
  ts_err err = TS_OK;
  if (!t->n_kept) return ts_tbe_sort(t, a, grad, in);
  TS_TRY(keep(t, grad, in));
  const int64_t n = t->n_kept;
  TS_TRY(ts_tbe_reserve(t, n, n));
  uint32_t *order = t->order[0].ptr;
  int64_t *at = t->grad_at.ptr;
  memcpy(t->keys[0].ptr, t->kept_keys, (size_t)n * 4);
  for (int64_t i = 0; i < n; i++) {
    order[i] = (uint32_t)i;
    at[i] = i * t->dim;
  }
  const ts_sort_args sort = {.keys = t->keys[0].ptr,
                             .keys_scratch = t->keys[1].ptr,
                             .values = t->order[0].ptr,
                             .values_scratch = t->order[1].ptr,
                             .n = n,
                             .n_bits = t->key_bits};
  TS_TRY(t->kernels->sort(&sort));
  a->keys = sort.keys;
  a->order = sort.values;
  a->n = n;
  a->grad = t->kept_sums;
  a->grad_at = at;
  t->n_kept = 0;
done:
  return err;
}
