/* layer_ops.c - tasks of the layers' kernels. */
#include "model/layer_ops.h"

#include <math.h>

#include "base/hash.h"
#include "base/rng.h"

/* The kernel NAME as a task with a copy of its arguments. */
#define TASK(scope, name, args, span)                                          \
  typedef struct name##_arg {                                                  \
    const ts_kernels *kernels;                                                 \
    args a;                                                                    \
  } name##_arg;                                                                \
  static ts_err name##_task(void *p, ts_lane *lane) {                          \
    (void)lane;                                                                \
    const name##_arg *t = p;                                                   \
    return t->kernels->name(&t->a);                                            \
  }                                                                            \
  scope ts_err ts_run_##name(const ts_layer *l, const ts_layer_run *r,         \
                             const args *a) {                                  \
    const name##_arg t = {l->spec->kernels, *a};                               \
    return ts_lane_run(r->lane, span, name##_task, t);                         \
  }
/* NAME_forward and NAME_backward as one function. */
#define PASSES(name, args, span)                                               \
  TASK(static, name##_forward, args, span)                                     \
  TASK(static, name##_backward, args, span " backward")                        \
  ts_err ts_run_##name(const ts_layer *l, const ts_layer_run *r,               \
                       const args *a, ts_pass pass) {                          \
    return pass == TS_FORWARD ? ts_run_##name##_forward(l, r, a)               \
                              : ts_run_##name##_backward(l, r, a);             \
  }
TASK(, contract, ts_contract_args, "contract")
TASK(, map, ts_map_args, "elementwise")
TASK(, column_sums, ts_column_sums_args, "column sums")
TASK(, column_apply, ts_column_apply_args, "column apply")
TASK(, dropout, ts_dropout_args, "dropout")
PASSES(act, ts_act_args, "activation")
PASSES(norm, ts_norm_args, "norm")
PASSES(batch_norm, ts_batch_norm_args, "batch norm")
PASSES(max, ts_max_args, "max")
PASSES(prepend, ts_prepend_args, "prepend")
PASSES(pool, ts_pool_args, "pool")
TASK(static, attention, ts_attention_args, "attention")
TASK(static, attention_grad, ts_attention_args, "attention backward")
TASK(static, attention_half, ts_attention_args, "attention")
TASK(static, attention_half_grad, ts_attention_args, "attention backward")
TASK(, tokens, ts_tokens_args, "tokens")
TASK(, targets, ts_targets_args, "targets")
TASK(, candidates_forward, ts_candidates_args, "candidates")
TASK(, candidates_rows, ts_candidates_args, "candidates backward")
TASK(, candidates_items, ts_candidates_args, "items backward")
TASK(, full_softmax_take, ts_full_softmax_args, "items")
TASK(, full_softmax_part, ts_full_softmax_args, "softmax")
TASK(, full_softmax_loss, ts_full_softmax_args, "losses")
TASK(, full_softmax_factor, ts_full_softmax_args, "losses backward")
TASK(, full_softmax_slopes, ts_full_softmax_args, "softmax backward")
TASK(, full_softmax_give, ts_full_softmax_args, "items backward")
TASK(, target_figures, ts_target_figures_args, "figures")
PASSES(places, ts_places_args, "positions")
TASK(, rotary, ts_rotary_args, "rotary")
PASSES(fm, ts_fm_args, "interaction")

ts_err ts_run_attention_pass(const ts_layer *l, const ts_layer_run *r,
                             const ts_attention_args *a, ts_pass pass) {
  const bool half = ts_linear_precision(l->spec->config->run.precision,
                                        l->spec->kernels) == TS_PRECISION_BF16;
  if (pass == TS_FORWARD)
    return half ? ts_run_attention_half(l, r, a) : ts_run_attention(l, r, a);
  return half ? ts_run_attention_half_grad(l, r, a)
              : ts_run_attention_grad(l, r, a);
}

void ts_layer_times(const ts_layer *l, const ts_param *biases,
                    ts_attention_args *a) {
  const ts_tokens *t = ts_tokens_at(l->tokens);
  a->time_bias = biases->w;
  a->dtime_bias = biases->grad;
  a->n_times = biases->cols;
  a->when = t->when;
  a->asked = t->asked;
}

/* ---- sums of columns into f32 -------------------------------------------- */

ts_err ts_run_bias_grad(const ts_layer *l, const ts_layer_run *r, float *grad,
                        const float *dy, int64_t rows, int64_t stride,
                        int32_t n) {
  const ts_contract_args a = {.c = grad,
                              .a = dy,
                              .cs = {.r = 1},
                              .as = {.r = 1, .c = stride},
                              .n_b = 1,
                              .n_k = rows,
                              .n_h = 1,
                              .n_i = n,
                              .n_j = 1,
                              .scale = 1};
  return ts_run_contract(l, r, &a);
}

ts_err ts_run_copy(const ts_layer *l, const ts_layer_run *r, float *to,
                   int64_t to_stride, const float *from, int64_t from_stride,
                   int32_t n, bool add) {
  const ts_map_args a = {.y = to,
                         .a = from,
                         .ys = {.b = to_stride, .c = 1},
                         .as = {.b = from_stride, .c = 1},
                         .n_b = r->batch,
                         .n_h = 1,
                         .n_i = 1,
                         .n_j = n,
                         .op = TS_MAP_MULTIPLY,
                         .scale = 1,
                         .add = add};
  return ts_run_map(l, r, &a);
}

ts_err ts_run_rows(const ts_layer *l, const ts_layer_run *r, ts_map_op op,
                   ts_rows y, float scale, ts_rows a, ts_rows x, int32_t n,
                   bool add) {
  const ts_map_args m = {.y = y.p,
                         .a = a.p,
                         .x = x.p,
                         .ys = {.b = y.stride, .c = 1},
                         .as = {.b = a.stride, .c = 1},
                         .xs = {.b = x.stride, .c = 1},
                         .n_b = r->batch,
                         .n_h = 1,
                         .n_i = 1,
                         .n_j = n,
                         .op = op,
                         .scale = scale,
                         .add = add};
  return ts_run_map(l, r, &m);
}

ts_err ts_packed_take(ts_packed *p, ts_layer *l, int32_t k) {
  const ts_value *v = l->in[k].value;
  const int64_t width = ts_shape_width(v->shape);
  *p = (ts_packed){0};
  if (v->stride == width) return TS_OK;
  TS_DO(ts_layer_take(l, &p->x, l->spec->batch_max * width, 4));
  if (!l->in[k].dx) return TS_OK;
  return ts_layer_take(l, &p->dx, l->spec->batch_max * width, 4);
}

ts_err ts_packed_x(const ts_packed *p, const ts_layer *l, const ts_layer_run *r,
                   int32_t k, const float **x) {
  const ts_value *v = l->in[k].value;
  const int32_t width = ts_shape_width(v->shape);
  *x = p->x ? p->x : v->x;
  if (!p->x) return TS_OK;
  return ts_run_copy(l, r, p->x, width, v->x, v->stride, width, false);
}

float *ts_packed_dx(const ts_packed *p, const ts_layer *l, int32_t k) {
  return p->dx ? p->dx : l->in[k].dx;
}

ts_err ts_packed_give(const ts_packed *p, const ts_layer *l,
                      const ts_layer_run *r, int32_t k) {
  const ts_input *in = &l->in[k];
  const int32_t width = ts_shape_width(in->value->shape);
  if (!p->dx) return TS_OK;
  return ts_run_copy(l, r, in->dx, in->value->stride, p->dx, width, width,
                     false);
}

void ts_layer_drop_key(const ts_layer *l, const ts_layer_run *r, int32_t i,
                       uint32_t key[2]) {
  const uint64_t of[] = {(uint64_t)l->spec->config->run.seed,
                         (uint64_t)r->epoch, ts_layer_key(l), (uint64_t)i};
  ts_rng_key(key, ts_fnv1a(TS_FNV_START, of, sizeof of), TS_RNG_DROPOUT);
}

ts_err ts_run_drop(const ts_layer *l, const ts_layer_run *r, int32_t i,
                   ts_rows to, ts_rows from, int32_t n, double p) {
  const ts_tokens *by = ts_tokens_at(l->tokens); /* their rows are tokens */
  ts_dropout_args a = {.y = to.p,
                       .x = from.p,
                       .rows = r->batch,
                       .x_stride = from.stride,
                       .y_stride = to.stride,
                       .first = r->first,
                       .sample = by ? by->sample : NULL,
                       .position = by ? by->position : NULL,
                       .n = n,
                       .p = (float)p};
  if (r->training && p > 0) {
    ts_layer_drop_key(l, r, i, a.key);
    return ts_run_dropout(l, r, &a);
  }
  if (to.p == from.p) return TS_OK;
  return ts_run_copy(l, r, to.p, to.stride, from.p, from.stride, n, false);
}

typedef struct ts_zero_arg {
  const ts_kernels *kernels;
  void *p;
  size_t bytes;
} ts_zero_arg;

static ts_err zero_task(void *arg, ts_lane *lane) {
  (void)lane;
  const ts_zero_arg *a = arg;
  return a->kernels->zero(a->p, a->bytes);
}

ts_err ts_run_zero(const ts_layer *l, const ts_layer_run *r, void *p,
                   size_t bytes) {
  const ts_zero_arg a = {l->spec->kernels, p, bytes};
  return ts_lane_run(r->lane, "zero", zero_task, a);
}

ts_err ts_run_products(const ts_layer *l, const ts_layer_run *r, float *c,
                       ts_stride4 cs, const float *a, ts_stride4 as,
                       const float *b, ts_stride4 bs, ts_sizes n, float scale,
                       bool add) {
  const ts_contract_args t = {c,   a,   b,   cs,  as,    bs, n.b,
                              n.k, n.h, n.i, n.j, scale, add};
  return ts_run_contract(l, r, &t);
}

ts_err ts_run_times(const ts_layer *l, const ts_layer_run *r, float *y,
                    ts_stride4 ys, const float *a, ts_stride4 as,
                    const float *x, ts_stride4 xs, ts_sizes n, float scale,
                    bool add) {
  const ts_map_args t = {
      y, a, x, ys, as, xs, n.b, n.h, n.i, n.j, TS_MAP_MULTIPLY, scale, add};
  return ts_run_map(l, r, &t);
}

ts_err ts_run_act_rows(const ts_layer *l, const ts_layer_run *r,
                       ts_act_kind kind, int64_t rows, int32_t n,
                       const float *x, int64_t x_stride, float *y,
                       const float *dy, float *dx, ts_pass pass) {
  const ts_act_args a = {.x = x,
                         .y = y,
                         .dy = dy,
                         .dx = dx,
                         .rows = rows,
                         .x_stride = x_stride,
                         .y_stride = n,
                         .n = n,
                         .kind = kind};
  return ts_run_act(l, r, &a, pass);
}

ts_err ts_run_softmax(const ts_layer *l, const ts_layer_run *r, int64_t rows,
                      int32_t n, const float *s, float *p, float *dp,
                      ts_pass pass) {
  const ts_norm_args a = {.x = s,
                          .y = p,
                          .dy = dp,
                          .dx = dp,
                          .rows = rows,
                          .x_stride = n,
                          .y_stride = n,
                          .n = n,
                          .kind = TS_NORM_SOFTMAX,
                          .scale = 1};
  return ts_run_norm(l, r, &a, pass);
}

/* ---- parameters ---------------------------------------------------------- */

ts_err ts_layer_begin(const ts_layer_run *r, const ts_param *p, ts_pass pass) {
  return ts_layer_acquire(r->hooks, p, pass, r->lane);
}

ts_err ts_layer_end(const ts_layer_run *r, const ts_param *p, ts_pass pass) {
  return ts_layer_release(r->hooks, p, pass, r->lane);
}

ts_err ts_layer_gave(const ts_layer_run *r, ts_param *const *p, int32_t n) {
  for (int32_t i = n - 1; i >= 0; i--)
    TS_DO(ts_layer_ready(r->hooks, p[i], r->lane));
  return TS_OK;
}

/* ---- linear layers ------------------------------------------------------- */

ts_err ts_rows_linear_create(ts_rows_linear *x, ts_layer *l,
                             const ts_rows_linear_spec *s, ts_lane *lane) {
  const double bound = 1 / sqrt((double)s->n_in);
  const int64_t rows = (int64_t)l->spec->batch_max * s->rows_each;
  if (rows > INT32_MAX)
    return ts_layer_fail(l, "a batch has more than %d rows here", INT32_MAX);
  const ts_linear_spec spec = {.n_in = s->n_in,
                               .n_out = s->n_out,
                               .in_stride = s->in_stride,
                               .out_stride = s->n_out,
                               .relu = s->relu,
                               .precision = l->spec->config->run.precision,
                               .batch_max = (int32_t)rows,
                               .varies = l->tokens != NULL,
                               .need_dx = s->need_dx,
                               .engine = l->spec->engine,
                               .kernels = l->spec->kernels};
  x->rows_each = s->rows_each;
  TS_DO(ts_layer_param(l, &x->p[0], s->i, s->last, "weight", s->n_out, s->n_in,
                       bound));
  if (s->bias)
    TS_DO(
        ts_layer_param(l, &x->p[1], s->i, s->last, "bias", s->n_out, 0, bound));
  return ts_linear_create(&x->linear, &spec, x->p[0], x->p[1], lane);
}

ts_err ts_rows_linear_make(ts_rows_linear *x, ts_layer *l, int32_t i,
                           int32_t n_in, int32_t in_stride, int32_t n_out,
                           int32_t rows_each, unsigned flags, ts_lane *lane) {
  const ts_rows_linear_spec s = {.i = i,
                                 .n_in = n_in,
                                 .in_stride = in_stride,
                                 .n_out = n_out,
                                 .rows_each = rows_each,
                                 .bias = flags & TS_ROWS_BIAS,
                                 .relu = flags & TS_ROWS_RELU,
                                 .need_dx = !(flags & TS_ROWS_NO_DX)};
  return ts_rows_linear_create(x, l, &s, lane);
}

ts_err ts_layer_part(ts_linear **out, const ts_layer *l,
                     const ts_linear_spec *spec, ts_param *W, ts_param *b,
                     ts_lane *lane) {
  const ts_model_spec *m = l->spec;
  ts_linear_spec s = *spec;
  s.precision = m->config->run.precision;
  s.part = true;
  s.batch_max = m->batch_max;
  s.engine = m->engine;
  s.kernels = m->kernels;
  if (!ts_linear_in_bf16(s.precision, s.n_out, s.engine, s.kernels))
    return TS_OK;
  return ts_linear_create(out, &s, W, b, lane);
}

void ts_rows_linear_reset(ts_rows_linear *x) {
  ts_linear_destroy(x->linear);
  *x = (ts_rows_linear){0};
}

ts_err ts_rows_linear_forward(ts_rows_linear *x, const ts_layer_run *r,
                              float *y, const float *in) {
  TS_DO(ts_layer_begin(r, x->p[0], TS_FORWARD));
  TS_DO(ts_linear_forward(x->linear, y, in, r->batch * x->rows_each, r->lane));
  return ts_layer_end(r, x->p[0], TS_FORWARD);
}

ts_err ts_rows_linear_backward(ts_rows_linear *x, const ts_layer_run *r,
                               float *dx, float *dy, const float *in,
                               const float *y) {
  TS_DO(ts_layer_begin(r, x->p[0], TS_BACKWARD));
  TS_DO(ts_linear_backward(x->linear, dx, dy, in, y, r->batch * x->rows_each,
                           r->lane));
  TS_DO(ts_layer_gave(r, x->p, x->p[1] ? 2 : 1));
  return ts_layer_end(r, x->p[0], TS_BACKWARD);
}
