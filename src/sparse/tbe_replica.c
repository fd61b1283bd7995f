/* tbe_replica.c - the backward pass of groups that every rank holds: sums of
 * the rows that this rank touched, then everyone's sums applied alike. */
#include "base/mem.h"
#include "sparse/tbe_impl.h"

/* A message: n keys, then n rows of dim floats. */
static int64_t message_rows(const ts_tbe *t, int64_t bytes) {
  return bytes / (4 + 4 * (int64_t)t->dim);
}

typedef struct ts_reduce_arg {
  ts_tbe *tbe;
  const void **msg;
  int64_t *msg_bytes;
  const float *grad;
  int64_t n_known;
  ts_tbe_input input;
} ts_reduce_arg;

static ts_err pack(ts_tbe *t, int64_t n) {
  const size_t keys = (size_t)n * 4, sums = keys * (size_t)t->dim;
  TS_DO(ts_buffer_reserve(&t->message, keys + sums + 4));
  TS_DO(t->kernels->copy(t->message.ptr, t->sum_keys.ptr, keys));
  return t->kernels->copy((char *)t->message.ptr + keys, t->sums.ptr, sums);
}

static ts_err reduce_task(void *p, ts_lane *lane) {
  (void)lane;
  const ts_reduce_arg *arg = p;
  ts_tbe *t = arg->tbe;
  t->n_known = arg->n_known;
  const ts_err err = ts_tbe_sum(t, arg->grad, &arg->input);
  t->n_known = -1;
  TS_DO(err);
  TS_DO(pack(t, t->n_sums));
  *arg->msg = t->message.ptr;
  *arg->msg_bytes = t->n_sums * (4 + 4 * (int64_t)t->dim);
  return TS_OK;
}

ts_err ts_tbe_reduce(ts_tbe *t, const void **msg, int64_t *msg_bytes,
                     const float *grad, const ts_tbe_input *input,
                     int64_t n_known, ts_lane *lane) {
  ts_reduce_arg arg = {t, msg, msg_bytes, grad, n_known, *input};
  return ts_lane_run(lane, "reduce rows", reduce_task, arg);
}

typedef struct ts_apply_arg {
  ts_tbe *tbe;
  const void *const *msg;
  const int64_t *msg_bytes;
  int n_ranks;
  double lr_factor;
  int64_t pass;
} ts_apply_arg;

/* Entries of all messages: entry i of the concatenation is bag i, whose
 * gradient is its sum, at a distance from *BASE: the first message's start. */
static ts_err fill(ts_tbe *t, const ts_apply_arg *a, const float **base) {
  ts_append_args part = {.keys = t->keys[0].ptr,
                         .order = t->order[0].ptr,
                         .at = t->grad_at.ptr,
                         .dim = t->dim};
  *base = a->msg[0];
  for (int r = 0; r < a->n_ranks; r++, part.first += part.n) {
    part.n = message_rows(t, a->msg_bytes[r]);
    part.from = a->msg[r];
    part.offset = (const float *)(part.from + part.n) - *base;
    if (part.n) TS_DO(t->kernels->append(&part));
  }
  return TS_OK;
}

static ts_err apply_task(void *p, ts_lane *lane) {
  (void)lane;
  const ts_apply_arg *arg = p;
  ts_tbe *t = arg->tbe;
  const float *base;
  int64_t n = 0;
  for (int r = 0; r < arg->n_ranks; r++)
    n += message_rows(t, arg->msg_bytes[r]);
  if (!n) return TS_OK;
  TS_DO(ts_tbe_reserve(t, n, n));
  TS_DO(fill(t, arg, &base));
  ts_row_update_args a = ts_tbe_update_args(t, arg->lr_factor, arg->pass);
  TS_DO(ts_tbe_sort_sums(t, &a, base, n));
  TS_DO(ts_tbe_locate(t, &a.place, a.keys, n));
  TS_DO(ts_tbe_mark(t, a.keys, n));
  return t->kernels->row_update(&a);
}

ts_err ts_tbe_apply(ts_tbe *t, const void *const *msg, const int64_t *msg_bytes,
                    int n_ranks, double lr_factor, int64_t pass,
                    ts_lane *lane) {
  ts_apply_arg arg = {t, msg, msg_bytes, n_ranks, lr_factor, pass};
  return ts_lane_run(lane, "fused backward", apply_task, arg);
}
