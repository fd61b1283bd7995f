/* sparsenn.c - TorchRec's benchmark model: what is looked up goes into one
 * large linear layer, so nearly all of its time is tables, messages and the
 * dense optimizer.
 *
 *   b = MLP(dense), ReLU on every layer, of any width
 *   X = [b, e_1 .. e_F], each as wide as its table; logits = MLP(X)
 * Without dense features b is left out. */
#include <string.h>

#include "base/mem.h"
#include "model/arch.h"

typedef struct ts_sparsenn {
  ts_model base;
  ts_mlp *bottom; /* NULL without dense features */
  ts_mlp *over;
  int32_t n_features;
  int32_t width, stride; /* of X: used and padded */
  int32_t b_width;
  int32_t *at;   /* (n_features + 1) column of X where a feature begins */
  float *b;      /* bottom's output (batch, b_width), its own */
  float *db;     /* (batch_max, b_width) */
  float *x, *dx; /* (batch_max, stride); padding stays 0 */
} ts_sparsenn;

static void destroy(ts_model *m) {
  ts_sparsenn *s = (ts_sparsenn *)m;
  if (!s) return;
  ts_mlp_destroy(s->bottom);
  ts_mlp_destroy(s->over);
  ts_params_reset(&s->base.params);
  ts_mem_free(s->at);
  ts_mem_free(s->x);
  ts_mem_free(s->dx);
  ts_mem_free(s->db);
  ts_mem_free(s);
}

static ts_err lay_out(ts_sparsenn *s, const ts_model_spec *spec) {
  const ts_config *c = spec->config;
  const ts_ints *bottom = &c->model.dense_arch;
  s->n_features = spec->n_features;
  ts_err err =
      ts_mem_array(&s->at, s->n_features + 1, sizeof *s->at, TS_TAG_DENSE);
  if (err != TS_OK) return err;
  if (c->model.dense_features > 0)
    s->b_width = (int32_t)bottom->item[bottom->n - 1];
  int32_t f = 0, at = s->b_width;
  for (int32_t t = 0; t < c->n_tables; t++)
    for (int32_t i = 0; i < c->tables[t].features.n; i++, f++) {
      s->at[f] = at;
      at += c->tables[t].dim;
    }
  s->at[f] = s->width = at;
  s->stride = (s->width + 31) / 32 * 32;
  return TS_OK;
}

static ts_err check(const ts_model_spec *s) {
  ts_err err = TS_OK;
  const ts_config *c = s->config;
  TS_TRY(ts_arch_check(s));
  if (c->model.dense_features > 0 && !c->model.dense_arch.n)
    TS_THROW(TS_ERR_DECK,
             "model.dense_arch is empty, but there are %d dense "
             "features",
             c->model.dense_features);
done:
  return err;
}

static ts_err create(ts_model **out, const ts_model_spec *spec,
                     ts_device *device, const ts_kernels *kernels,
                     ts_lane *lane) {
  extern const ts_model_ops ts_model_sparsenn;
  ts_err err = TS_OK;
  ts_sparsenn *s = NULL;
  const int64_t rows = spec->batch_max;
  (void)device, (void)kernels;
  TS_TRY(check(spec));
  TS_TRY(ts_mem_alloc(&s, sizeof *s, TS_TAG_DENSE));
  s->base.ops = &ts_model_sparsenn;
  s->base.params.deferred = spec->deferred;
  TS_TRY(lay_out(s, spec));
  TS_TRY(ts_arch_bottom(&s->bottom, spec, &s->base.params, lane));
  TS_TRY(
      ts_arch_over(&s->over, spec, s->width, s->stride, &s->base.params, lane));
  TS_TRY(ts_mem_array(&s->x, rows * s->stride, 4, TS_TAG_ACTIVATIONS));
  TS_TRY(ts_mem_array(&s->dx, rows * s->stride, 4, TS_TAG_ACTIVATIONS));
  TS_TRY(ts_mem_array(&s->db, rows * s->b_width, 4, TS_TAG_ACTIVATIONS));
  *out = &s->base;
  s = NULL;
done:
  destroy((ts_model *)s);
  return err;
}

static ts_err dense_forward(ts_model *m, const float *dense, int32_t batch,
                            const ts_layer_hooks *hooks, ts_lane *lane) {
  ts_sparsenn *s = (ts_sparsenn *)m;
  if (!s->bottom) return TS_OK;
  return ts_mlp_forward(s->bottom, &s->b, dense, batch, hooks, lane);
}

/* ---- X and its transpose ------------------------------------------------- */

typedef struct ts_concat {
  ts_sparsenn *s;
  ts_emb_views emb;
  int32_t batch;
} ts_concat;

static ts_err concat_task(void *arg, ts_lane *lane) {
  (void)lane;
  const ts_concat *a = arg;
  const ts_sparsenn *s = a->s;
#pragma omp parallel for schedule(static)
  for (int32_t i = 0; i < a->batch; i++) {
    float *x = s->x + (int64_t)i * s->stride;
    if (s->bottom)
      memcpy(x, s->b + (int64_t)i * s->b_width, (size_t)s->b_width * 4);
    for (int32_t f = 0; f < s->n_features; f++)
      memcpy(x + s->at[f], a->emb.data[f] + i * a->emb.stride[f],
             (size_t)(s->at[f + 1] - s->at[f]) * 4);
  }
  return TS_OK;
}

static ts_err split_task(void *arg, ts_lane *lane) {
  (void)lane;
  const ts_concat *a = arg;
  const ts_sparsenn *s = a->s;
#pragma omp parallel for schedule(static)
  for (int32_t i = 0; i < a->batch; i++) {
    const float *dx = s->dx + (int64_t)i * s->stride;
    if (s->bottom)
      memcpy(s->db + (int64_t)i * s->b_width, dx, (size_t)s->b_width * 4);
    for (int32_t f = 0; f < s->n_features; f++)
      memcpy(a->emb.grad[f] + i * a->emb.stride[f], dx + s->at[f],
             (size_t)(s->at[f + 1] - s->at[f]) * 4);
  }
  return TS_OK;
}

static ts_err over_forward(ts_model *m, float **logits, const ts_emb_views *emb,
                           int32_t batch, const ts_layer_hooks *hooks,
                           ts_lane *lane) {
  ts_err err = TS_OK;
  ts_sparsenn *s = (ts_sparsenn *)m;
  const ts_concat arg = {s, *emb, batch};
  TS_TRY(ts_lane_submit(lane, "concatenate", concat_task, &arg, sizeof arg));
  TS_TRY(ts_mlp_forward(s->over, logits, s->x, batch, hooks, lane));
done:
  return err;
}

static ts_err over_backward(ts_model *m, float *dlogits,
                            const ts_emb_views *emb, int32_t batch,
                            const ts_layer_hooks *hooks, ts_lane *lane) {
  ts_err err = TS_OK;
  ts_sparsenn *s = (ts_sparsenn *)m;
  const ts_concat arg = {s, *emb, batch};
  TS_TRY(ts_mlp_backward(s->over, s->dx, dlogits, batch, hooks, lane));
  TS_TRY(ts_lane_submit(lane, "concatenate backward", split_task, &arg,
                        sizeof arg));
done:
  return err;
}

static ts_err dense_backward(ts_model *m, int32_t batch,
                             const ts_layer_hooks *hooks, ts_lane *lane) {
  ts_sparsenn *s = (ts_sparsenn *)m;
  if (!s->bottom) return TS_OK;
  return ts_mlp_backward(s->bottom, NULL, s->db, batch, hooks, lane);
}

extern const ts_model_ops ts_model_sparsenn;
const ts_model_ops ts_model_sparsenn = {.kind = "sparsenn",
                                        .any_dims = true,
                                        .create = create,
                                        .destroy = destroy,
                                        .dense_forward = dense_forward,
                                        .over_forward = over_forward,
                                        .over_backward = over_backward,
                                        .dense_backward = dense_backward};
