/* sparsenn.c - TorchRec's benchmark model: what is looked up goes into one
 * large linear layer, so nearly all of its time is tables, messages and the
 * dense optimizer.
 *
 *   b = MLP(dense), ReLU on every layer, of any width
 *   X = [b, e_1 .. e_F, weighted e_1 .. e_G], each as wide as its table
 *   logits = MLP(X)
 * Without dense features b is left out. */
#include "base/mem.h"
#include "model/arch.h"
#include "model/concat.h"

typedef struct ts_sparsenn {
  ts_arch arch;
  ts_concat x;
} ts_sparsenn;

static void destroy(ts_model *m) {
  ts_sparsenn *s = (ts_sparsenn *)m;
  if (!s) return;
  ts_arch_reset(&s->arch);
  ts_concat_reset(&s->x);
  ts_mem_free(s);
}

extern const ts_model_ops ts_model_sparsenn;

static ts_err create(ts_model **out, const ts_model_spec *spec,
                     ts_device *device, ts_lane *lane) {
  ts_err err = TS_OK;
  ts_sparsenn *s = NULL;
  int32_t b_width;
  TS_TRY(ts_arch_check(spec));
  TS_TRY(ts_arch_bottom_width(&b_width, spec));
  TS_TRY(ts_mem_alloc(&s, sizeof *s, TS_TAG_DENSE));
  s->arch.base.ops = &ts_model_sparsenn;
  s->arch.base.params.deferred = spec->deferred;
  TS_TRY(ts_concat_init(&s->x, spec, b_width, true));
  TS_TRY(ts_concat_take(&s->x, spec, device, false));
  s->arch.db = s->x.db;
  TS_TRY(ts_arch_bottom(&s->arch, spec, lane));
  TS_TRY(ts_arch_over(&s->arch, spec, s->x.width, s->x.stride, false, lane));
  *out = &s->arch.base;
done:
  if (err != TS_OK) destroy((ts_model *)s);
  return err;
}

static ts_err over_forward(ts_model *m, float **logits, const ts_emb_views *emb,
                           int32_t batch, const ts_layer_hooks *hooks,
                           ts_lane *lane) {
  ts_sparsenn *s = (ts_sparsenn *)m;
  TS_DO(ts_concat_forward(&s->x, s->arch.b, emb, batch, lane));
  return ts_mlp_forward(s->arch.over, logits, s->x.x, batch, hooks, lane);
}

static ts_err over_backward(ts_model *m, float *dlogits,
                            const ts_emb_views *emb, int32_t batch,
                            const ts_layer_hooks *hooks, ts_lane *lane) {
  ts_sparsenn *s = (ts_sparsenn *)m;
  TS_DO(ts_mlp_backward(s->arch.over, s->x.dx, dlogits, batch, hooks, lane));
  return ts_concat_backward(&s->x, emb, batch, lane);
}

const ts_model_ops ts_model_sparsenn = {.kind = "sparsenn",
                                        .any_dims = true,
                                        .weighted_apart = true,
                                        .create = create,
                                        .destroy = destroy,
                                        .dense_forward = ts_arch_dense_forward,
                                        .over_forward = over_forward,
                                        .over_backward = over_backward,
                                        .dense_backward =
                                            ts_arch_dense_backward};
