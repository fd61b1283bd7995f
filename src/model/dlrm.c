/* dlrm.c - DLRM: bottom MLP, pairwise dot interaction, top MLP.
 *
 *   b = MLP(dense), ReLU on every layer, of width dim
 *   X = [b, e_1 .. e_F];  top on [b, x_i . x_j for i < j]; logits
 * Without dense features b is left out. */
#include "base/dense_columns.h"
#include "base/mem.h"
#include "dense/interact.h"
#include "model/arch.h"
#include "runtime/arrays.h"

typedef struct ts_dlrm {
  ts_arch arch;
  ts_model_spec spec;
  int32_t width, stride; /* of the interaction: used and padded */
  bool half;             /* z and dz are of bf16, else f32 */
  void *z, *dz;          /* (batch_max, stride) */
  ts_arrays arrays;      /* z, dz, arch.db */
  float *work;           /* of the host's interaction, on n_threads */
  int n_threads;
} ts_dlrm;

static void destroy(ts_model *m) {
  ts_dlrm *d = (ts_dlrm *)m;
  if (!d) return;
  ts_arch_reset(&d->arch);
  ts_arrays_reset(&d->arrays);
  ts_mem_free_all(d->work, d);
}

static ts_err check(const ts_model_spec *s) {
  const ts_config *c = s->config;
  const ts_ints *bottom = &c->model.dense_arch;
  TS_DO(ts_arch_check(s));
  if (c->model.dense_features > 0 &&
      (!bottom->n || bottom->item[bottom->n - 1] != s->dim))
    return ts_fail(TS_ERR_DECK,
                   "model.dense_arch ends with %lld, but table %s has dim "
                   "%d: the two must be equal",
                   bottom->n ? (long long)bottom->item[bottom->n - 1] : 0LL,
                   c->tables[0].name, s->dim);
  if (s->n_features < 2 && !c->model.dense_features)
    return ts_fail(
        TS_ERR_DECK,
        "model.kind = \"dlrm\" takes products of pairs of features; one "
        "feature and no model.dense_features make no pair");
  return TS_OK;
}

/* Multiplications of a sample: one product for each pair of vectors. */
static double products(const ts_model_spec *s) {
  const double n = s->n_features + (s->config->model.dense_features ? 1 : 0);
  return n * (n - 1) / 2 * s->dim;
}

/* With thousands of features the first upper layer has billions of weights. */
static void count(ts_model_count *c, const ts_model_spec *s) {
  const double b = s->config->model.dense_features ? 1 : 0;
  const double n = s->n_features + b;
  const double width = b * s->dim + n * (n - 1) / 2;
  c->activations = 2 * width + s->dim;
  if (b > 0)
    ts_arch_count(c, ts_dense_width(s->config), &s->config->model.dense_arch);
  ts_arch_count(c, width, &s->config->model.over_arch);
}

static ts_err take_arrays(ts_dlrm *d, ts_device *device, int32_t n) {
  const int64_t rows = d->spec.batch_max, dim = d->spec.dim;
  const size_t size = d->half ? 2 : 4;
  TS_DO(ts_arrays_take(&d->arrays, device, &d->z, rows * d->stride, size,
                       TS_TAG_ACTIVATIONS));
  TS_DO(ts_arrays_take(&d->arrays, device, &d->dz, rows * d->stride, size,
                       TS_TAG_ACTIVATIONS));
  TS_DO(ts_arrays_take(&d->arrays, device, &d->arch.db, rows * dim, 4,
                       TS_TAG_ACTIVATIONS));
  if (ts_device_is_discrete(device)) return TS_OK;
  d->n_threads = ts_device_options_of(device)->n_threads;
  return ts_mem_array(
      &d->work, d->n_threads * ts_interact_work(n, d->spec.dim, d->stride), 4,
      TS_TAG_ACTIVATIONS);
}

extern const ts_model_ops ts_model_dlrm;

static ts_err create(ts_model **out, const ts_model_spec *s, ts_device *device,
                     ts_lane *lane) {
  ts_err err = TS_OK;
  ts_dlrm *d = NULL;
  TS_TRY(check(s));
  TS_TRY(ts_mem_alloc(&d, sizeof *d, TS_TAG_DENSE));
  d->arch.base.ops = &ts_model_dlrm;
  d->arch.base.params.deferred = s->deferred;
  d->spec = *s;
  const int32_t b = s->config->model.dense_features ? 1 : 0;
  const int32_t n = s->n_features + b;
  d->width = b * s->dim + n * (n - 1) / 2;
  d->stride = (d->width + 31) / 32 * 32;
  TS_TRY(ts_arch_bottom(&d->arch, s, lane));
  d->half = ts_arch_half(s);
  TS_TRY(ts_arch_over(&d->arch, s, d->width, d->stride, d->half, lane));
  TS_TRY(take_arrays(d, device, n));
  *out = &d->arch.base;
done:
  if (err != TS_OK) destroy((ts_model *)d);
  return err;
}

typedef struct ts_interact_task {
  const ts_kernels *kernels;
  ts_interact_args args;
} ts_interact_task;

static ts_err forward_task(void *arg, ts_lane *lane) {
  (void)lane;
  const ts_interact_task *t = arg;
  return t->args.half ? t->kernels->interact_forward_half(&t->args)
                      : t->kernels->interact_forward(&t->args);
}

static ts_err backward_task(void *arg, ts_lane *lane) {
  (void)lane;
  const ts_interact_task *t = arg;
  return t->args.half ? t->kernels->interact_backward_half(&t->args)
                      : t->kernels->interact_backward(&t->args);
}

static ts_interact_task interact(ts_dlrm *d, const ts_emb_views *emb,
                                 int32_t batch) {
  return (ts_interact_task){d->spec.kernels,
                            {.out = d->z,
                             .grad = d->dz,
                             .half = d->half,
                             .out_stride = d->stride,
                             .bottom = d->arch.b,
                             .grad_bottom = d->arch.db,
                             .emb = emb->data,
                             .grad_emb = emb->grad,
                             .emb_stride = emb->stride,
                             .work = d->work,
                             .work_threads = d->n_threads,
                             .n_features = emb->n_features,
                             .dim = d->spec.dim,
                             .batch = batch}};
}

static ts_err over_forward(ts_model *m, float **logits, const ts_emb_views *emb,
                           int32_t batch, const ts_layer_hooks *hooks,
                           ts_lane *lane) {
  ts_dlrm *d = (ts_dlrm *)m;
  const ts_interact_task task = interact(d, emb, batch);
  TS_DO(ts_lane_submit(lane, "interaction", forward_task, &task, sizeof task));
  return ts_mlp_forward(d->arch.over, logits, d->z, batch, hooks, lane);
}

static ts_err over_backward(ts_model *m, float *dlogits,
                            const ts_emb_views *emb, int32_t batch,
                            const ts_layer_hooks *hooks, ts_lane *lane) {
  ts_dlrm *d = (ts_dlrm *)m;
  const ts_interact_task task = interact(d, emb, batch);
  TS_DO(ts_mlp_backward(d->arch.over, d->dz, dlogits, batch, hooks, lane));
  return ts_lane_submit(lane, "interaction backward", backward_task, &task,
                        sizeof task);
}

const ts_model_ops ts_model_dlrm = {.kind = "dlrm",
                                    .products = products,
                                    .count = count,
                                    .create = create,
                                    .destroy = destroy,
                                    .dense_forward = ts_arch_dense_forward,
                                    .over_forward = over_forward,
                                    .over_backward = over_backward,
                                    .dense_backward = ts_arch_dense_backward};
