/* cross.c - cross layers: two products and a pass by element each.
 *
 * Forward keeps u = V x, t = W u + b and x of each layer.  Backward, from dy:
 * dt = dy * x_0, dx_0 += dy * t, du = dt W, dx = dy + du V.  The last sum is
 * made by the next layer's pass, which reads dy anyway.
 *
 * In bf16 all of that is bf16, x and dy, which layers add to, too; sums are
 * worked out in f32.  Where who takes y wants f32 (not y_half) the last y and
 * the first dy are f32. */
#include "dense/cross.h"

#include <math.h>

#include "base/mem.h"
#include "base/str.h"
#include "runtime/arrays.h"

typedef struct ts_cross_layer {
  ts_param *V, *W, *b;
  ts_linear *down, *up; /* V, without bias; W, b; full: V, down, u are NULL */
  void *u;              /* (batch_max, u_stride) f32 or bf16 */
  void *t;              /* (batch_max, t_stride) f32 or bf16 */
  void *y;              /* (batch_max, stride) */
} ts_cross_layer;

struct ts_cross {
  ts_cross_spec spec;
  const ts_kernels *kernels;
  ts_cross_layer *layer; /* (n_layers) */
  bool half, y_half;
  int32_t u_stride, t_stride;
  void *du, *dt, *dv; /* of the layer at hand; dv (batch_max, stride) */
  void *dy;           /* (batch_max, stride) bf16, where half and not y_half */
  const void *x;      /* of the last forward */
  ts_arrays arrays;
};

static ts_err add_param(ts_param **p, const ts_cross_spec *s, ts_params *params,
                        const char *kind, int32_t l, int32_t rows, int32_t cols,
                        ts_lane *lane) {
  ts_err err = TS_OK;
  ts_str name = {0}, group = {0};
  TS_TRY(ts_str_append(&name, "%s.%s.%d", s->name, kind, l));
  TS_TRY(ts_str_append(&group, "%s.%d", s->group, l));
  TS_TRY(ts_params_add(params, ts_lane_device(lane), p, name.text, group.text,
                       rows, cols));
done:
  ts_str_reset(&name);
  ts_str_reset(&group);
  return err;
}

static ts_err add_params(ts_cross_layer *k, const ts_cross_spec *s,
                         ts_params *params, uint64_t seed, int32_t l,
                         ts_lane *lane) {
  const int32_t inner = s->rank ? s->rank : s->width;
  const double deviation = sqrt(2.0 / ((double)s->width + inner));
  if (s->rank)
    TS_DO(add_param(&k->V, s, params, "V_kernels", l, s->rank, s->width, lane));
  TS_DO(add_param(&k->W, s, params, s->rank ? "W_kernels" : "kernels", l,
                  s->width, inner, lane));
  TS_DO(add_param(&k->b, s, params, "bias", l, s->width, 0, lane));
  if (k->V) TS_DO(ts_param_init_normal(k->V, seed, deviation));
  return ts_param_init_normal(k->W, seed, deviation);
}

/* A matrix with a row for each sample. */
static ts_err take(ts_cross *c, void *p, int32_t stride, size_t size,
                   ts_lane *lane) {
  return ts_arrays_take(&c->arrays, ts_lane_device(lane), p,
                        (int64_t)c->spec.batch_max * stride, size,
                        TS_TAG_ACTIVATIONS);
}

static bool is_last(const ts_cross *c, const ts_cross_layer *k) {
  return k + 1 == c->layer + c->spec.n_layers;
}

static ts_err make_arrays(ts_cross *c, ts_cross_layer *k, ts_lane *lane) {
  const size_t size = c->half ? 2 : 4;
  if (k->V) TS_DO(take(c, &k->u, c->u_stride, size, lane));
  TS_DO(take(c, &k->t, c->t_stride, size, lane));
  return take(c, &k->y, c->spec.stride, is_last(c, k) && !c->y_half ? 4 : size,
              lane);
}

static ts_err add_layer(ts_cross *c, ts_cross_layer *k, ts_params *params,
                        uint64_t seed, int32_t l, ts_lane *lane) {
  const ts_cross_spec *s = &c->spec;
  ts_linear_spec spec = {.n_in = s->width,
                         .n_out = s->rank,
                         .in_stride = s->stride,
                         .out_stride = c->u_stride,
                         .x_half = c->half,
                         .y_half = c->half,
                         .precision = s->precision,
                         .batch_max = s->batch_max,
                         .need_dx = true,
                         .engine = s->engine,
                         .kernels = c->kernels};
  TS_DO(add_params(k, s, params, seed, l, lane));
  if (k->V) {
    TS_DO(ts_linear_create(&k->down, &spec, k->V, NULL, lane));
    spec.n_in = s->rank;
    spec.in_stride = c->u_stride;
  }
  spec.n_out = s->width;
  spec.out_stride = c->t_stride;
  TS_DO(ts_linear_create(&k->up, &spec, k->W, k->b, lane));
  return make_arrays(c, k, lane);
}

bool ts_cross_in_bf16(const ts_cross_spec *s, const ts_kernels *kernels) {
  return s->n_layers > 0 && !s->floats &&
         (!s->rank ||
          ts_linear_in_bf16(s->precision, s->rank, s->engine, kernels)) &&
         ts_linear_in_bf16(s->precision, s->width, s->engine, kernels);
}

ts_err ts_cross_create(ts_cross **out, const ts_cross_spec *s,
                       ts_params *params, const ts_kernels *kernels,
                       uint64_t seed, ts_lane *lane) {
  ts_err err = TS_OK;
  ts_cross *c = NULL;
  const bool half = ts_cross_in_bf16(s, kernels);
  const size_t size = half ? 2 : 4;
  TS_TRY(ts_mem_alloc(&c, sizeof *c, TS_TAG_DENSE));
  c->spec = *s;
  c->half = half;
  c->y_half = half && s->y_half;
  c->u_stride = half ? (s->rank + 31) / 32 * 32 : s->rank;
  c->t_stride = half ? s->stride : s->width;
  c->kernels = kernels;
  TS_TRY(ts_mem_many(c->layer, s->n_layers, DENSE));
  for (int32_t l = 0; l < s->n_layers; l++)
    TS_TRY(add_layer(c, &c->layer[l], params, seed, l, lane));
  if (s->rank) TS_TRY(take(c, &c->du, c->u_stride, size, lane));
  TS_TRY(take(c, &c->dt, c->t_stride, size, lane));
  TS_TRY(take(c, &c->dv, s->stride, size, lane));
  if (half && !c->y_half) TS_TRY(take(c, &c->dy, s->stride, 2, lane));
  *out = c;
  c = NULL;
done:
  ts_cross_destroy(c);
  return err;
}

void ts_cross_destroy(ts_cross *c) {
  if (!c) return;
  for (int32_t l = 0; c->layer && l < c->spec.n_layers; l++) {
    ts_linear_destroy(c->layer[l].down);
    ts_linear_destroy(c->layer[l].up);
  }
  ts_mem_free(c->layer);
  ts_arrays_reset(&c->arrays);
  ts_mem_free(c);
}

/* The first parameter of its group. */
static const ts_param *first_of(const ts_cross_layer *k) {
  return k->V ? k->V : k->W;
}

bool ts_cross_is_half(const ts_cross *c) {
  return c->y_half;
}

/* ---- by element ---------------------------------------------------------- */

typedef struct ts_cross_task {
  const ts_kernels *kernels;
  ts_cross_args args;
} ts_cross_task;

static ts_err forward_task(void *arg, ts_lane *lane) {
  (void)lane;
  const ts_cross_task *t = arg;
  return t->kernels->cross_forward(&t->args);
}

static ts_err backward_task(void *arg, ts_lane *lane) {
  (void)lane;
  const ts_cross_task *t = arg;
  return t->kernels->cross_backward(&t->args);
}

static ts_cross_task by_element(const ts_cross *c, int32_t batch) {
  return (ts_cross_task){c->kernels,
                         {.x0 = c->x,
                          .half = c->half,
                          .width = c->spec.width,
                          .stride = c->spec.stride,
                          .t_stride = c->t_stride,
                          .batch = batch}};
}

ts_err ts_cross_forward(ts_cross *c, const void **y, const void *x,
                        int32_t batch, const ts_layer_hooks *hooks,
                        ts_lane *lane) {
  c->x = x;
  for (int32_t l = 0; l < c->spec.n_layers; l++) {
    const ts_cross_layer *k = &c->layer[l];
    ts_cross_task task = by_element(c, batch);
    task.args.x = x;
    task.args.t = k->t;
    if (c->half && !c->y_half && is_last(c, k))
      task.args.y32 = k->y;
    else
      task.args.y = k->y;
    TS_DO(ts_layer_acquire(hooks, first_of(k), TS_FORWARD, lane));
    if (k->V) TS_DO(ts_linear_forward(k->down, k->u, x, batch, lane));
    TS_DO(ts_linear_forward(k->up, k->t, k->V ? k->u : x, batch, lane));
    TS_DO(ts_layer_release(hooks, first_of(k), TS_FORWARD, lane));
    TS_DO(ts_lane_run(lane, "cross", forward_task, task));
    x = k->y;
  }
  *y = x;
  return TS_OK;
}

static ts_err layer_backward(ts_cross *c, int32_t l, int32_t batch,
                             const ts_layer_hooks *hooks, ts_lane *lane) {
  const ts_cross_layer *k = &c->layer[l];
  const void *x = l ? c->layer[l - 1].y : c->x;
  TS_DO(ts_layer_acquire(hooks, first_of(k), TS_BACKWARD, lane));
  TS_DO(ts_linear_backward(k->up, k->V ? c->du : c->dv, c->dt, k->V ? k->u : x,
                           k->t, batch, lane));
  TS_DO(ts_layer_ready(hooks, k->b, lane));
  TS_DO(ts_layer_ready(hooks, k->W, lane));
  if (k->V) {
    TS_DO(ts_linear_backward(k->down, c->dv, c->du, x, k->u, batch, lane));
    TS_DO(ts_layer_ready(hooks, k->V, lane));
  }
  return ts_layer_release(hooks, first_of(k), TS_BACKWARD, lane);
}

ts_err ts_cross_backward(ts_cross *c, void *dx, void *dy, int32_t batch,
                         const ts_layer_hooks *hooks, ts_lane *lane) {
  const int32_t n = c->spec.n_layers;
  ts_cross_task task = by_element(c, batch);
  task.args.dy = c->dy ? c->dy : dy;
  task.args.dy32 = c->dy ? dy : NULL;
  task.args.dx0 = dx;
  task.args.dt = c->dt;
  task.args.first = true;
  for (int32_t l = n - 1; l >= 0; l--) {
    task.args.t = c->layer[l].t;
    TS_DO(ts_lane_run(lane, "cross backward", backward_task, task));
    TS_DO(layer_backward(c, l, batch, hooks, lane));
    if (!task.args.first) task.args.dy32 = NULL; /* add was added */
    task.args.first = false;
    task.args.add = c->dv;
  }
  task.args.t = NULL; /* dx_0 += dy + dv */
  return ts_lane_run(lane, "cross backward", backward_task, task);
}
