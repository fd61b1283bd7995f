/* mlp.c - a stack of linear layers. */
#include "dense/mlp.h"

#include <math.h>

#include "base/mem.h"
#include "runtime/arrays.h"

struct ts_mlp {
  int32_t n_layers;
  ts_linear **layer; /* (n_layers) */
  ts_param **W, **b;
  int32_t *n_out;
  void **y, **dy; /* (n_layers) activations and their gradients, f32 or bf16 */
  const void *x;  /* of the last forward */
  ts_arrays arrays;
  bool need_dx;
};

/* Whether the activations of layer i are of bf16, and their stride. */
static bool is_half(const ts_mlp *m, const ts_mlp_spec *s, int32_t i) {
  return i < m->n_layers - 1 &&
         ts_linear_in_bf16(s->precision, m->n_out[i], s->engine, s->kernels);
}

static int32_t stride_of(const ts_mlp *m, const ts_mlp_spec *s, int32_t i) {
  return is_half(m, s, i) ? (m->n_out[i] + 31) / 32 * 32 : m->n_out[i];
}

static ts_err add_layer(ts_mlp *m, const ts_mlp_spec *s, int32_t i,
                        ts_lane *lane) {
  const int32_t n_in = i ? m->n_out[i - 1] : s->n_in;
  const ts_linear_spec spec = {
      .n_in = n_in,
      .n_out = m->n_out[i],
      .in_stride = i ? stride_of(m, s, i - 1) : s->in_stride,
      .out_stride = stride_of(m, s, i),
      .x_half = i ? is_half(m, s, i - 1) : s->x_half,
      .y_half = is_half(m, s, i),
      .relu = !(i == s->n_layers - 1 && s->last_linear),
      .precision = s->precision,
      .batch_max = s->batch_max,
      .varies = s->varies,
      .need_dx = i > 0 || s->need_dx,
      .engine = s->engine,
      .kernels = s->kernels,
      .below = i ? m->layer[i - 1] : NULL};
  ts_device *device = ts_lane_device(lane);
  const int64_t n = (int64_t)s->batch_max * stride_of(m, s, i);
  const size_t size = is_half(m, s, i) ? 2 : 4;
  const bool last = i == s->n_layers - 1;
  const double bound = 1.0 / sqrt((double)n_in);
  TS_DO(
      s->param(s->arg, &m->W[i], i, last, "weight", m->n_out[i], n_in, bound));
  TS_DO(s->param(s->arg, &m->b[i], i, last, "bias", m->n_out[i], 0, bound));
  TS_DO(ts_linear_create(&m->layer[i], &spec, m->W[i], m->b[i], lane));
  TS_DO(ts_arrays_take(&m->arrays, device, &m->y[i], n, size,
                       TS_TAG_ACTIVATIONS));
  return ts_arrays_take(&m->arrays, device, &m->dy[i], n, size,
                        TS_TAG_ACTIVATIONS);
}

ts_err ts_mlp_create(ts_mlp **out, const ts_mlp_spec *s, ts_lane *lane) {
  ts_err err = TS_OK;
  ts_mlp *m = NULL;
  const int32_t n = s->n_layers;
  TS_TRY(ts_mem_alloc(&m, sizeof *m, TS_TAG_DENSE));
  m->n_layers = n;
  m->need_dx = s->need_dx;
  TS_TRY(ts_mem_many(m->layer, n, DENSE));
  TS_TRY(ts_mem_many(m->W, n, DENSE));
  TS_TRY(ts_mem_many(m->b, n, DENSE));
  TS_TRY(ts_mem_many(m->n_out, n, DENSE));
  TS_TRY(ts_mem_many(m->y, n, DENSE));
  TS_TRY(ts_mem_many(m->dy, n, DENSE));
  for (int32_t i = 0; i < n; i++) m->n_out[i] = (int32_t)s->sizes[i];
  for (int32_t i = 0; i < n; i++) TS_TRY(add_layer(m, s, i, lane));
  *out = m;
  m = NULL;
done:
  ts_mlp_destroy(m);
  return err;
}

void ts_mlp_destroy(ts_mlp *m) {
  if (!m) return;
  for (int32_t i = 0; m->layer && i < m->n_layers; i++)
    ts_linear_destroy(m->layer[i]);
  ts_arrays_reset(&m->arrays);
  ts_mem_free(m->layer);
  ts_mem_free(m->W);
  ts_mem_free(m->b);
  ts_mem_free(m->n_out);
  ts_mem_free(m->y);
  ts_mem_free(m->dy);
  ts_mem_free(m);
}

ts_err ts_mlp_forward(ts_mlp *m, float **y, const void *x, int32_t batch,
                      const ts_layer_hooks *hooks, ts_lane *lane) {
  m->x = x;
  for (int32_t i = 0; i < m->n_layers; i++) {
    TS_DO(ts_layer_acquire(hooks, m->W[i], TS_FORWARD, lane));
    TS_DO(ts_linear_forward(m->layer[i], m->y[i], i ? m->y[i - 1] : x, batch,
                            lane));
    TS_DO(ts_layer_release(hooks, m->W[i], TS_FORWARD, lane));
  }
  *y = m->y[m->n_layers - 1];
  return TS_OK;
}

ts_err ts_mlp_backward(ts_mlp *m, void *dx, float *dlast, int32_t batch,
                       const ts_layer_hooks *hooks, ts_lane *lane) {
  void *dy = dlast;
  for (int32_t i = m->n_layers - 1; i >= 0; i--) {
    void *dx_i = i ? m->dy[i - 1] : dx;
    TS_DO(ts_layer_acquire(hooks, m->W[i], TS_BACKWARD, lane));
    TS_DO(ts_linear_backward(m->layer[i], dx_i, dy, i ? m->y[i - 1] : m->x,
                             m->y[i], batch, lane));
    TS_DO(ts_layer_ready(hooks, m->b[i], lane));
    TS_DO(ts_layer_ready(hooks, m->W[i], lane));
    TS_DO(ts_layer_release(hooks, m->W[i], TS_BACKWARD, lane));
    dy = dx_i;
  }
  return TS_OK;
}
