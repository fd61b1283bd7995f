/* dcnv2.c - DCNv2: MLP below, low-rank cross layers over everything side by
 * side, MLP above.
 *
 *   b = MLP(dense), ReLU on every layer, of any width
 *   x_0 = [b, e_1 .. e_F], each as wide as its table
 *   x_(l+1) = x_0 * (W_l (V_l x_l) + b_l) + x_l;  logits = MLP(x_L)
 * Without dense features b is left out. */
#include "base/mem.h"
#include "dense/cross.h"
#include "model/arch.h"
#include "model/concat.h"

typedef struct ts_dcnv2 {
  ts_arch arch;
  ts_cross *cross;
  ts_concat x;
  void *dc; /* (batch_max, stride) gradient of the cross layers' output, f32 or
               bf16 as that */
  ts_arrays arrays;
} ts_dcnv2;

static void destroy(ts_model *m) {
  ts_dcnv2 *d = (ts_dcnv2 *)m;
  if (!d) return;
  ts_cross_destroy(d->cross);
  ts_arch_reset(&d->arch);
  ts_concat_reset(&d->x);
  ts_arrays_reset(&d->arrays);
  ts_mem_free(d);
}

static ts_cross_spec cross_spec(const ts_dcnv2 *d, const ts_model_spec *s) {
  const ts_config *c = s->config;
  return (ts_cross_spec){
      .width = d->x.width,
      .stride = d->x.stride,
      .n_layers = c->model.dcn_layers,
      .rank = c->model.dcn_rank,
      .name = "inter_arch.crossnet",
      .group = "cross",
      .precision = c->run.precision,
      .y_half = ts_linear_in_bf16(c->run.precision,
                                  (int32_t)c->model.over_arch.item[0],
                                  s->engine, s->kernels),
      .batch_max = s->batch_max,
      .engine = s->engine};
}

extern const ts_model_ops ts_model_dcnv2;

static ts_err create(ts_model **out, const ts_model_spec *spec,
                     ts_device *device, ts_lane *lane) {
  ts_err err = TS_OK;
  ts_dcnv2 *d = NULL;
  ts_cross_spec cross;
  int32_t b_width;
  bool half;
  TS_TRY(ts_arch_check(spec));
  TS_TRY(ts_arch_bottom_width(&b_width, spec));
  TS_TRY(ts_mem_alloc(&d, sizeof *d, TS_TAG_DENSE));
  d->arch.base.ops = &ts_model_dcnv2;
  d->arch.base.params.deferred = spec->deferred;
  TS_TRY(ts_concat_init(&d->x, spec, b_width, false));
  cross = cross_spec(d, spec);
  TS_TRY(ts_concat_take(&d->x, spec, device,
                        ts_cross_in_bf16(&cross, spec->kernels)));
  d->arch.db = d->x.db;
  TS_TRY(ts_arch_bottom(&d->arch, spec, lane));
  TS_TRY(ts_cross_create(&d->cross, &cross, &d->arch.base.params, spec->kernels,
                         (uint64_t)spec->config->run.seed, lane));
  half = ts_cross_is_half(d->cross);
  TS_TRY(ts_arch_over(&d->arch, spec, d->x.width, d->x.stride, half, lane));
  TS_TRY(ts_arrays_take(&d->arrays, device, &d->dc,
                        (int64_t)spec->batch_max * d->x.stride, half ? 2 : 4,
                        TS_TAG_ACTIVATIONS));
  *out = &d->arch.base;
done:
  if (err != TS_OK) destroy((ts_model *)d);
  return err;
}

static ts_err over_forward(ts_model *m, float **logits, const ts_emb_views *emb,
                           int32_t batch, const ts_layer_hooks *hooks,
                           ts_lane *lane) {
  ts_dcnv2 *d = (ts_dcnv2 *)m;
  const void *crossed;
  TS_DO(ts_concat_forward(&d->x, d->arch.b, emb, batch, lane));
  TS_DO(ts_cross_forward(d->cross, &crossed, d->x.x, batch, hooks, lane));
  return ts_mlp_forward(d->arch.over, logits, crossed, batch, hooks, lane);
}

static ts_err over_backward(ts_model *m, float *dlogits,
                            const ts_emb_views *emb, int32_t batch,
                            const ts_layer_hooks *hooks, ts_lane *lane) {
  ts_dcnv2 *d = (ts_dcnv2 *)m;
  TS_DO(ts_mlp_backward(d->arch.over, d->dc, dlogits, batch, hooks, lane));
  TS_DO(ts_cross_backward(d->cross, d->x.dx, d->dc, batch, hooks, lane));
  return ts_concat_backward(&d->x, emb, batch, lane);
}

const ts_model_ops ts_model_dcnv2 = {.kind = "dcnv2",
                                     .any_dims = true,
                                     .create = create,
                                     .destroy = destroy,
                                     .dense_forward = ts_arch_dense_forward,
                                     .over_forward = over_forward,
                                     .over_backward = over_backward,
                                     .dense_backward = ts_arch_dense_backward};
