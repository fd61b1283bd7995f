/* tbe_keep.c - gradients of micro-batches: the sums of the rows that each one
 * touched are kept until the last one's backward pass, which takes them in as
 * if they were contributions to its rows.  So a row is updated once a step,
 * by the sum over all micro-batches. */
#include "base/mem.h"
#include "sparse/tbe_impl.h"

/* B with room for so many BYTES; its first USED stay. */
static ts_err grow_buffer(ts_tbe *t, ts_buffer *b, size_t used, size_t bytes) {
  ts_err err = TS_OK;
  ts_buffer more = {
      .space = b->space, .tag = b->tag, .owned = true, .device = b->device};
  TS_TRY(ts_buffer_reserve(&more, bytes));
  TS_TRY(t->kernels->copy(more.ptr, b->ptr, used));
  const ts_buffer old = *b;
  *b = more;
  more = old;
done:
  ts_buffer_reset(&more);
  return err;
}

static ts_err grow(ts_tbe *t, int64_t n) {
  const size_t dim = (size_t)t->dim, used = (size_t)t->n_kept;
  const size_t rows = 2 * (size_t)t->kept_max + (size_t)n;
  if (n <= t->kept_max) return TS_OK;
  TS_DO(grow_buffer(t, &t->kept_sums, used * dim * 4, rows * dim * 4));
  TS_DO(grow_buffer(t, &t->kept_keys, used * 4, rows * 4));
  t->kept_max = (int64_t)rows;
  return TS_OK;
}

/* Adds this micro-batch's rows to those that are kept. */
static ts_err keep(ts_tbe *t, const float *grad, const ts_tbe_input *in) {
  const size_t dim = (size_t)t->dim;
  TS_DO(ts_tbe_sum_batch(t, grad, in));
  const int64_t n = t->n_sums;
  TS_DO(grow(t, t->n_kept + n));
  if (!n) return TS_OK;
  TS_DO(t->kernels->copy((float *)t->kept_sums.ptr + (size_t)t->n_kept * dim,
                         t->sums.ptr, (size_t)n * dim * 4));
  TS_DO(t->kernels->copy((uint32_t *)t->kept_keys.ptr + t->n_kept,
                         t->sum_keys.ptr, (size_t)n * 4));
  t->n_kept += n;
  return TS_OK;
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
  return ts_lane_run(lane, "keep rows", keep_task, arg);
}

void ts_tbe_drop(ts_tbe *t) {
  t->n_kept = 0;
}

ts_err ts_tbe_entries(ts_tbe *t, ts_row_update_args *a, const float *grad,
                      const ts_tbe_input *in) {
  if (!t->n_kept) return ts_tbe_sort(t, a, grad, in);
  TS_DO(keep(t, grad, in));
  const int64_t n = t->n_kept;
  TS_DO(ts_tbe_reserve(t, n, n));
  const ts_append_args all = {.keys = t->keys[0].ptr,
                              .order = t->order[0].ptr,
                              .at = t->grad_at.ptr,
                              .from = t->kept_keys.ptr,
                              .n = n,
                              .dim = t->dim};
  TS_DO(t->kernels->append(&all));
  TS_DO(ts_tbe_sort_sums(t, a, t->kept_sums.ptr, n));
  t->n_kept = 0;
  return TS_OK;
}
