/* activation.c - activations with what they keep. */
#include "model/activation.h"

#include <stdio.h>

ts_err ts_activation_create(ts_activation *a, ts_layer *l,
                            const ts_activation_spec *s) {
  char name[48];
  const int64_t floats = (int64_t)l->spec->batch_max * s->n;
  const ts_batch_norm_spec norm = {
      .i = s->i, .prefix = s->prefix, .n = s->n, .eps = 1e-5, .momentum = 0.1};
  a->kind = s->kind;
  a->n = s->n;
  a->rows_each = s->rows_each;
  a->slope = (float)s->slope;
  if (s->kind != TS_ACTIVATION_PRELU && s->kind != TS_ACTIVATION_DICE)
    return TS_OK;
  snprintf(name, sizeof name, "%sweight", s->prefix);
  TS_DO(ts_layer_param(l, &a->weight, s->i, false, name, s->n, 0, 0));
  if (s->kind == TS_ACTIVATION_PRELU)
    return ts_param_init_constant(a->weight, 0.25f);
  TS_DO(ts_batch_norm_create(&a->norm, l, &norm));
  TS_DO(ts_layer_take(l, &a->t, floats, 4));
  TS_DO(ts_layer_take(l, &a->p, floats, 4));
  TS_DO(ts_layer_take(l, &a->work, floats, 4));
  return ts_layer_take(l, &a->more, floats, 4);
}

void ts_activation_reset(ts_activation *a) {
  ts_batch_norm_reset(&a->norm);
}

static ts_err sigmoid(const ts_activation *a, const ts_layer *l,
                      const ts_layer_run *r, ts_pass pass) {
  const ts_act_args s = {.x = a->t,
                         .y = a->p,
                         .dy = a->work,
                         .dx = a->work,
                         .rows = r->batch,
                         .x_stride = a->n,
                         .y_stride = a->n,
                         .n = a->n,
                         .kind = TS_ACT_SIGMOID};
  return ts_run_act(l, r, &s, pass);
}

/* Y = v (p + weight (1 - p)); WORK = v (1 - p). */
static ts_err gate(const ts_activation *a, const ts_layer *l,
                   const ts_layer_run *r, ts_rows y, ts_rows v, ts_rows work) {
  const ts_rows p = {a->p, a->n}, weight = {a->weight->w, 0};
  TS_DO(ts_run_rows(l, r, TS_MAP_MULTIPLY, work, 1, v, p, a->n, false));
  TS_DO(ts_run_rows(l, r, TS_MAP_SUM, work, -1, work, v, a->n, false));
  TS_DO(ts_run_rows(l, r, TS_MAP_MULTIPLY, y, 1, v, p, a->n, false));
  return ts_run_rows(l, r, TS_MAP_MULTIPLY, y, 1, work, weight, a->n, true);
}

static ts_err dice_forward(ts_activation *a, const ts_layer *l,
                           const ts_layer_run *r, ts_rows y, ts_rows x) {
  const ts_rows work = {a->work, a->n};
  TS_DO(ts_batch_norm_forward(&a->norm, l, r, a->t, a->n, x.p, x.stride));
  TS_DO(sigmoid(a, l, r, TS_FORWARD));
  return gate(a, l, r, y, x, work);
}

/* dweight = sum of dy x (1 - p); through p: dp = dy x (1 - weight), by which
 * the batch norm's gradient is made; and dy (p + weight (1 - p)). */
static ts_err dice_backward(ts_activation *a, const ts_layer *l,
                            const ts_layer_run *r, ts_rows dx, ts_rows dy,
                            ts_rows x) {
  const ts_rows work = {a->work, a->n}, more = {a->more, a->n};
  const ts_rows weight = {a->weight->w, 0}, none = {0};
  const ts_contract_args dweight = {.c = a->weight->grad,
                                    .a = dy.p,
                                    .b = a->work,
                                    .cs = {.h = 1},
                                    .as = {.h = 1, .c = dy.stride},
                                    .bs = {.h = 1, .c = a->n},
                                    .n_b = 1,
                                    .n_k = r->batch,
                                    .n_h = a->n,
                                    .n_i = 1,
                                    .n_j = 1,
                                    .scale = 1};
  TS_DO(gate(a, l, r, more, x, work));
  TS_DO(ts_run_contract(l, r, &dweight));
  TS_DO(ts_run_rows(l, r, TS_MAP_MULTIPLY, work, 1, dy, x, a->n, false));
  TS_DO(ts_run_rows(l, r, TS_MAP_MULTIPLY, more, 1, work, weight, a->n, false));
  TS_DO(ts_run_rows(l, r, TS_MAP_SUM, work, -1, more, work, a->n, false));
  TS_DO(sigmoid(a, l, r, TS_BACKWARD));
  TS_DO(gate(a, l, r, dx, dy, more));
  TS_DO(ts_batch_norm_backward(&a->norm, l, r, a->work, a->n, a->work, a->n,
                               x.p, x.stride));
  return ts_run_rows(l, r, TS_MAP_MULTIPLY, dx, 1, work, none, a->n, true);
}

/* Of a kernel: dx has x's stride, dy that of y. */
static ts_act_args act_of(const ts_activation *a, const ts_layer_run *r,
                          int64_t x_stride, int64_t y_stride) {
  return (ts_act_args){.rows = (int64_t)r->batch * a->rows_each,
                       .x_stride = x_stride,
                       .y_stride = y_stride,
                       .n = a->n,
                       .slope = a->weight ? a->weight->w : NULL,
                       .kind = (ts_act_kind)(a->kind - TS_ACTIVATION_RELU),
                       .leak = a->slope};
}

static ts_norm_args softmax_of(const ts_activation *a, const ts_layer_run *r,
                               int64_t x_stride, int64_t y_stride) {
  return (ts_norm_args){.rows = (int64_t)r->batch * a->rows_each,
                        .x_stride = x_stride,
                        .y_stride = y_stride,
                        .n = a->n,
                        .kind = TS_NORM_SOFTMAX,
                        .scale = 1};
}

ts_err ts_activation_forward(ts_activation *a, const ts_layer *l,
                             const ts_layer_run *r, ts_rows y, ts_rows x) {
  const ts_rows none = {0};
  ts_act_args act = act_of(a, r, x.stride, y.stride);
  ts_norm_args norm = softmax_of(a, r, x.stride, y.stride);
  act.x = norm.x = x.p;
  act.y = norm.y = y.p;
  switch (a->kind) {
  case TS_ACTIVATION_LINEAR:
    return ts_run_rows(l, r, TS_MAP_MULTIPLY, y, 1, x, none, a->n, false);
  case TS_ACTIVATION_SOFTMAX:
    return ts_run_norm(l, r, &norm, TS_FORWARD);
  case TS_ACTIVATION_DICE:
    return dice_forward(a, l, r, y, x);
  default:
    return ts_run_act(l, r, &act, TS_FORWARD);
  }
}

ts_err ts_activation_backward(ts_activation *a, const ts_layer *l,
                              const ts_layer_run *r, ts_rows dx, ts_rows dy,
                              ts_rows x) {
  const ts_rows none = {0};
  ts_act_args act = act_of(a, r, dx.stride, dy.stride);
  ts_norm_args norm = softmax_of(a, r, dx.stride, dy.stride);
  act.x = norm.x = x.p;
  act.dx = norm.dx = dx.p;
  act.dy = norm.dy = dy.p;
  act.dslope = a->weight ? a->weight->grad : NULL;
  switch (a->kind) {
  case TS_ACTIVATION_LINEAR:
    return dx.p == dy.p ? TS_OK
                        : ts_run_rows(l, r, TS_MAP_MULTIPLY, dx, 1, dy, none,
                                      a->n, false);
  case TS_ACTIVATION_SOFTMAX:
    return ts_run_norm(l, r, &norm, TS_BACKWARD);
  case TS_ACTIVATION_DICE:
    return dice_backward(a, l, r, dx, dy, x);
  default:
    return ts_run_act(l, r, &act, TS_BACKWARD);
  }
}
