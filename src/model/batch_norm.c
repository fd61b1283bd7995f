/* batch_norm.c - batch norm over the samples of all ranks. */
#include "model/batch_norm.h"

#include <stdio.h>

ts_err ts_batch_norm_create(ts_batch_norm *b, ts_layer *l,
                            const ts_batch_norm_spec *s) {
  static const char *const tails[] = {"weight", "bias", "running_mean",
                                      "running_var"};
  char name[48];
  if (ts_layer_is_by_token(l))
    return ts_layer_fail(l, "batch norm and dice have statistics of samples, "
                            "not of tokens: take norm = \"layer\" or \"rms\", "
                            "and another activation");
  b->n = s->n;
  b->eps = s->eps;
  b->momentum = s->momentum;
  for (int k = 0; k < 4; k++) {
    snprintf(name, sizeof name, "%s%s", s->prefix, tails[k]);
    if (k >= 2)
      TS_DO(ts_layer_buffer(l, &b->running[k - 2], s->i, name, s->n, k == 3));
    else if (s->affine)
      TS_DO(ts_layer_param(l, &b->p[k], s->i, false, name, s->n, 0,
                           k ? 0 : TS_BOUND_ONES));
  }
  TS_DO(ts_layer_take(l, &b->own, 2 * (int64_t)s->n, sizeof(double)));
  TS_DO(ts_layer_take(l, &b->all, 2 * (int64_t)s->n, sizeof(double)));
  float **const of_columns[] = {&b->mean, &b->rstd, &b->u, &b->v, &b->w};
  for (int k = 0; k < 5; k++) TS_DO(ts_layer_take(l, of_columns[k], s->n, 4));
  return ts_layer_comm(l, &b->comm);
}

void ts_batch_norm_reset(ts_batch_norm *b) {
  *b = (ts_batch_norm){0};
}

/* Of this rank into own, of all ranks into all. */
static ts_err sums(ts_batch_norm *b, const ts_layer *l, const ts_layer_run *r,
                   ts_column_sums_args a) {
  ts_token token;
  const size_t bytes = 2 * (size_t)b->n * sizeof(double);
  a.sum = b->own;
  a.product = b->own + b->n;
  a.rows = r->batch;
  a.n = b->n;
  TS_DO(ts_run_column_sums(l, r, &a));
  TS_DO(ts_lane_copy(r->lane, b->all, b->own, bytes));
  if (!b->comm) return TS_OK;
  TS_DO(ts_comm_all_reduce(b->comm, &token, b->all, 2 * (int64_t)b->n, TS_F64,
                           TS_SUM, r->lane));
  return ts_comm_end(&token, r->lane);
}

static ts_batch_norm_args args_of(const ts_batch_norm *b, const ts_layer_run *r,
                                  bool backward) {
  const ts_param *gain = b->p[0], *bias = b->p[1];
  return (ts_batch_norm_args){.sum = b->all,
                              .product = b->all + b->n,
                              .own_sum = b->own,
                              .own_product = b->own + b->n,
                              .gain = gain ? gain->w : NULL,
                              .bias = bias ? bias->w : NULL,
                              .dgain = gain && backward ? gain->grad : NULL,
                              .dbias = bias && backward ? bias->grad : NULL,
                              .running_mean = b->running[0]->w,
                              .running_var = b->running[1]->w,
                              .mean = b->mean,
                              .rstd = b->rstd,
                              .u = b->u,
                              .v = b->v,
                              .w = b->w,
                              .count = (double)r->n_global,
                              .eps = (float)b->eps,
                              .momentum = (float)b->momentum,
                              .n = b->n,
                              .training = r->training};
}

ts_err ts_batch_norm_forward(ts_batch_norm *b, const ts_layer *l,
                             const ts_layer_run *r, float *y, int64_t y_stride,
                             const float *x, int64_t x_stride) {
  const ts_column_sums_args s = {.a = x, .a_stride = x_stride};
  const ts_batch_norm_args a = args_of(b, r, false);
  const ts_column_apply_args apply = {.y = y,
                                      .x = x,
                                      .u = b->u,
                                      .v = b->v,
                                      .w = b->w,
                                      .rows = r->batch,
                                      .y_stride = y_stride,
                                      .x_stride = x_stride,
                                      .n = b->n};
  if (r->training) TS_DO(sums(b, l, r, s));
  TS_DO(ts_run_batch_norm(l, r, &a, TS_FORWARD));
  return ts_run_column_apply(l, r, &apply);
}

ts_err ts_batch_norm_backward(ts_batch_norm *b, const ts_layer *l,
                              const ts_layer_run *r, float *dx,
                              int64_t dx_stride, const float *dy,
                              int64_t dy_stride, const float *x,
                              int64_t x_stride) {
  const ts_column_sums_args s = {
      .a = dy, .b = x, .a_stride = dy_stride, .b_stride = x_stride};
  const ts_batch_norm_args a = args_of(b, r, true);
  const ts_column_apply_args apply = {.y = dx,
                                      .x = dy,
                                      .z = x,
                                      .u = b->u,
                                      .v = b->v,
                                      .w = b->w,
                                      .rows = r->batch,
                                      .y_stride = dx_stride,
                                      .x_stride = dy_stride,
                                      .z_stride = x_stride,
                                      .n = b->n};
  TS_DO(sums(b, l, r, s));
  TS_DO(ts_run_batch_norm(l, r, &a, TS_BACKWARD));
  return ts_run_column_apply(l, r, &apply);
}
