/* arch.c - dense_arch and over_arch: the same names and shapes whatever is
 * between them. */
#include "model/arch.h"

#include <math.h>

#include "base/dense_columns.h"

ts_err ts_arch_check(const ts_model_spec *s) {
  const ts_config *c = s->config;
  const ts_ints *over = &c->model.over_arch;
  for (int32_t t = 0; t < c->n_tables; t++)
    if (c->tables[t].group && *c->tables[t].group)
      return ts_fail(TS_ERR_DECK,
                     "table %s: model.kind = \"%s\" takes all tables alike: "
                     "its tables of group \"%s\" are read by model.layers "
                     "alone",
                     c->tables[t].name, c->model.kind, c->tables[t].group);
  for (int32_t t = 0; t < c->n_tables; t++)
    if (c->tables[t].pooling == TS_POOL_NONE)
      return ts_fail(TS_ERR_DECK,
                     "table %s: pooling \"none\" gives sequences, which "
                     "model %s does not take",
                     c->tables[t].name, c->model.kind);
  if (!over->n || over->item[over->n - 1] != c->model.n_tasks)
    return ts_fail(TS_ERR_DECK,
                   "model.over_arch ends with %lld, but there are %d tasks: "
                   "one output each",
                   over->n ? (long long)over->item[over->n - 1] : 0LL,
                   c->model.n_tasks);
  return TS_OK;
}

void ts_arch_count(ts_model_count *count, double n_in, const ts_ints *sizes) {
  for (int32_t i = 0; i < sizes->n; i++) {
    const double n = (n_in + 1) * (double)sizes->item[i];
    count->weights += n;
    count->largest = fmax(count->largest, n);
    count->activations += 2 * (double)sizes->item[i];
    n_in = (double)sizes->item[i];
  }
}

ts_err ts_arch_bottom_width(int32_t *width, const ts_model_spec *s) {
  const ts_config *c = s->config;
  const ts_ints *bottom = &c->model.dense_arch;
  *width = 0;
  if (!c->model.dense_features) return TS_OK;
  if (!bottom->n)
    return ts_fail(TS_ERR_DECK,
                   "model.dense_arch is empty, but there are %d dense features",
                   c->model.dense_features);
  *width = (int32_t)bottom->item[bottom->n - 1];
  return TS_OK;
}

ts_err ts_arch_bottom(ts_arch *a, const ts_model_spec *s, ts_lane *lane) {
  ts_params *params = &a->base.params;
  const ts_config *c = s->config;
  const int32_t width = ts_dense_width(c);
  const ts_mlp_spec spec = {.n_in = width,
                            .in_stride = width,
                            .sizes = c->model.dense_arch.item,
                            .n_layers = c->model.dense_arch.n,
                            .name = "dense_arch.model._mlp",
                            .tail = "_linear",
                            .group = "dense_arch",
                            .precision = c->run.precision,
                            .batch_max = s->batch_max,
                            .engine = s->engine,
                            .kernels = s->kernels};
  const int32_t first = params->n;
  if (!c->model.dense_features) return TS_OK;
  TS_DO(ts_mlp_create(&a->bottom, &spec, params, (uint64_t)c->run.seed, lane));
  for (int32_t i = first; i < params->n; i++) params->item[i]->below = true;
  return TS_OK;
}

ts_err ts_arch_over(ts_arch *a, const ts_model_spec *s, int32_t width,
                    int32_t stride, bool half, ts_lane *lane) {
  const ts_config *c = s->config;
  const ts_mlp_spec spec = {.n_in = width,
                            .in_stride = stride,
                            .sizes = c->model.over_arch.item,
                            .n_layers = c->model.over_arch.n,
                            .last_linear = true,
                            .name = "over_arch.model.0._mlp",
                            .tail = "_linear",
                            .last_name = "over_arch.model.1",
                            .group = "over_arch",
                            .precision = c->run.precision,
                            .x_half = half,
                            .batch_max = s->batch_max,
                            .need_dx = true,
                            .engine = s->engine,
                            .kernels = s->kernels};
  return ts_mlp_create(&a->over, &spec, &a->base.params, (uint64_t)c->run.seed,
                       lane);
}

bool ts_arch_half(const ts_model_spec *s) {
  return ts_linear_precision(s->config->run.precision, s->kernels) ==
         TS_PRECISION_BF16;
}

/* ---- in steps ------------------------------------------------------------ */

ts_err ts_arch_dense_forward(ts_model *m, const float *dense, int32_t batch,
                             const ts_layer_hooks *hooks, ts_lane *lane) {
  ts_arch *a = (ts_arch *)m;
  if (!a->bottom) return TS_OK;
  return ts_mlp_forward(a->bottom, &a->b, dense, batch, hooks, lane);
}

ts_err ts_arch_dense_backward(ts_model *m, int32_t batch,
                              const ts_layer_hooks *hooks, ts_lane *lane) {
  const ts_arch *a = (ts_arch *)m;
  if (!a->bottom) return TS_OK;
  return ts_mlp_backward(a->bottom, NULL, a->db, batch, hooks, lane);
}

void ts_arch_reset(ts_arch *a) {
  ts_mlp_destroy(a->bottom);
  ts_mlp_destroy(a->over);
  ts_params_reset(&a->base.params);
}
