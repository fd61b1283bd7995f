/* deepfm.c - DeepFM as TorchRec's SimpleDeepFMNN: a deep layer and a
 * factorisation machine over everything side by side.
 *
 *   b = ReLU(L2 ReLU(L0 dense)), of width dim
 *   all = [b, e_1 .. e_F];  deep = ReLU(L all), of width fm_dim
 *   fm = ((sum all)^2 - sum all^2) / 2: over all scalars ("flat"), or per
 *        coordinate of the vectors and then summed ("field"), as in
 *        H. Guo et al., "DeepFM", IJCAI 2017
 *   logits = L [b, deep, fm]
 * Without dense features b is left out. */
#include <string.h>

#include "base/dense_columns.h"
#include "base/mem.h"
#include "model/arch.h"
#include "model/concat.h"

typedef struct ts_deepfm {
  ts_arch arch;
  const ts_kernels *kernels;
  ts_mlp *deep;
  ts_concat x;
  bool field;
  int32_t dim, b_width, deep_width;
  int32_t stride;   /* of h */
  float *deep_y;    /* its layer's own */
  float *h, *dh;    /* (batch_max, stride) [b, deep, fm]; padding stays 0 */
  float *ddeep;     /* (batch_max, deep_width) */
  ts_arrays arrays; /* h, dh, ddeep */
} ts_deepfm;

static void destroy(ts_model *m) {
  ts_deepfm *d = (ts_deepfm *)m;
  if (!d) return;
  ts_mlp_destroy(d->deep);
  ts_arch_reset(&d->arch);
  ts_concat_reset(&d->x);
  ts_arrays_reset(&d->arrays);
  ts_mem_free(d);
}

/* Its layers have keys of their own: those of other models would be ignored. */
static ts_err check(const ts_model_spec *s) {
  const ts_config *c = s->config;
  TS_DO(ts_arch_check(s));
  if (c->model.over_arch.n > 1)
    return ts_fail(
        TS_ERR_DECK,
        "model.over_arch: deepfm has one linear layer there, give [%d]",
        c->model.n_tasks);
  if (c->model.dense_arch.n)
    return ts_fail(
        TS_ERR_DECK,
        "model.dense_arch: deepfm's layers are [model.deepfm.hidden, "
        "dim], leave it empty ([])");
  return TS_OK;
}

/* All three MLPs: those of a list that counts ReLUs. */
static ts_mlp_spec layers(const ts_model_spec *s, const char *name,
                          const char *group, int32_t n_in, int32_t stride,
                          const int64_t *sizes, int32_t n) {
  return (ts_mlp_spec){.n_in = n_in,
                       .in_stride = stride,
                       .sizes = sizes,
                       .n_layers = n,
                       .name = name,
                       .group = group,
                       .precision = s->config->run.precision,
                       .batch_max = s->batch_max,
                       .need_dx = true,
                       .engine = s->engine,
                       .kernels = s->kernels};
}

static ts_err create_layers(ts_deepfm *d, const ts_model_spec *s,
                            ts_lane *lane) {
  const ts_config *c = s->config;
  const uint64_t seed = (uint64_t)c->run.seed;
  const int32_t n_dense = ts_dense_width(c);
  const int64_t bottom[2] = {c->model.deepfm_hidden, s->dim};
  const int64_t deep[1] = {d->deep_width}, over[1] = {c->model.n_tasks};
  ts_mlp_spec spec =
      layers(s, "dense_arch.model", "dense_arch", n_dense, n_dense, bottom, 2);
  spec.need_dx = false;
  if (n_dense)
    TS_DO(ts_mlp_create(&d->arch.bottom, &spec, &d->arch.base.params, seed,
                        lane));
  spec = layers(s, "inter_arch.deep_fm.dense_module", "deep_fm", d->x.width,
                d->x.stride, deep, 1);
  TS_DO(ts_mlp_create(&d->deep, &spec, &d->arch.base.params, seed, lane));
  spec = layers(s, "over_arch.model", "over_arch",
                d->b_width + d->deep_width + 1, d->stride, over, 1);
  spec.last_linear = true;
  return ts_mlp_create(&d->arch.over, &spec, &d->arch.base.params, seed, lane);
}

static ts_err take_arrays(ts_deepfm *d, ts_device *device, int64_t rows) {
  const ts_tag tag = TS_TAG_ACTIVATIONS;
  TS_DO(ts_arrays_take(&d->arrays, device, &d->h, rows * d->stride, 4, tag));
  TS_DO(ts_arrays_take(&d->arrays, device, &d->dh, rows * d->stride, 4, tag));
  return ts_arrays_take(&d->arrays, device, &d->ddeep, rows * d->deep_width, 4,
                        tag);
}

extern const ts_model_ops ts_model_deepfm;

static ts_err create(ts_model **out, const ts_model_spec *s, ts_device *device,
                     ts_lane *lane) {
  ts_err err = TS_OK;
  ts_deepfm *d = NULL;
  TS_TRY(check(s));
  TS_TRY(ts_mem_alloc(&d, sizeof *d, TS_TAG_DENSE));
  d->arch.base.ops = &ts_model_deepfm;
  d->arch.base.params.deferred = s->deferred;
  d->kernels = s->kernels;
  d->field = !strcmp(s->config->model.deepfm_fm, "field");
  d->dim = s->dim;
  d->b_width = s->config->model.dense_features ? s->dim : 0;
  d->deep_width = s->config->model.deepfm_fm_dim;
  d->stride = (d->b_width + d->deep_width + 1 + 31) / 32 * 32;
  TS_TRY(ts_concat_init(&d->x, s, d->b_width, false));
  TS_TRY(ts_concat_take(&d->x, s, device, false));
  d->arch.db = d->x.db;
  TS_TRY(create_layers(d, s, lane));
  TS_TRY(take_arrays(d, device, s->batch_max));
  *out = &d->arch.base;
done:
  if (err != TS_OK) destroy((ts_model *)d);
  return err;
}

/* Two of the machine's operations for each scalar. */
static double products(const ts_model_spec *s) {
  const double n = s->n_features + (s->config->model.dense_features ? 1 : 0);
  return 2 * n * s->dim;
}

/* ---- h = [b, deep, fm] and its transpose --------------------------------- */

typedef struct ts_deepfm_task {
  ts_deepfm *d;
  int32_t batch;
} ts_deepfm_task;

static ts_fm_args machine(const ts_deepfm *d, int32_t batch) {
  const int32_t dim = d->field ? d->dim : 1;
  const int32_t at = d->b_width + d->deep_width;
  return (ts_fm_args){.x = d->x.x,
                      .dx = d->x.dx,
                      .out = d->h + at,
                      .grad = d->dh + at,
                      .n_vectors = d->x.width / dim,
                      .dim = dim,
                      .stride = d->x.stride,
                      .out_stride = d->stride,
                      .batch = batch};
}

/* Rows of WIDE, STRIDE apart, and the one part of theirs from column AT on. */
typedef struct ts_deepfm_part {
  float *wide, *part;
  int64_t part_stride;
  int32_t stride, at, width;
} ts_deepfm_part;

static ts_join_args one_part(const ts_deepfm_part *p, int32_t batch) {
  return (ts_join_args){.wide = p->wide,
                        .part = &p->part,
                        .part_stride = &p->part_stride,
                        .at = &p->at,
                        .width = &p->width,
                        .stride = p->stride,
                        .n_parts = 1,
                        .batch = batch};
}

static ts_deepfm_part deep_part(const ts_deepfm *d, float *h, float *deep) {
  return (ts_deepfm_part){h,         deep,       d->deep_width,
                          d->stride, d->b_width, d->deep_width};
}

static ts_err join_task(void *arg, ts_lane *lane) {
  (void)lane;
  const ts_deepfm_task *a = arg;
  const ts_deepfm *d = a->d;
  const ts_fm_args fm = machine(d, a->batch);
  const ts_deepfm_part deep = deep_part(d, d->h, d->deep_y);
  ts_join_args args = one_part(&deep, a->batch);
  args.first = d->arch.b;
  args.first_width = d->b_width;
  TS_DO(d->kernels->join_rows(&args));
  return d->kernels->fm_forward(&fm);
}

static ts_err deep_task(void *arg, ts_lane *lane) {
  (void)lane;
  const ts_deepfm_task *a = arg;
  const ts_deepfm_part deep = deep_part(a->d, a->d->dh, a->d->ddeep);
  const ts_join_args args = one_part(&deep, a->batch);
  return a->d->kernels->split_rows(&args);
}

/* Beside the deep layer's: the machine's gradient, and b's own. */
static ts_err add_task(void *arg, ts_lane *lane) {
  (void)lane;
  const ts_deepfm_task *a = arg;
  const ts_deepfm *d = a->d;
  const ts_fm_args fm = machine(d, a->batch);
  const ts_deepfm_part b = {d->x.dx,     d->dh, d->stride,
                            d->x.stride, 0,     d->b_width};
  ts_join_args args = one_part(&b, a->batch);
  args.add = true;
  if (d->b_width) TS_DO(d->kernels->join_rows(&args));
  return d->kernels->fm_backward(&fm);
}

static ts_err over_forward(ts_model *m, float **logits, const ts_emb_views *emb,
                           int32_t batch, const ts_layer_hooks *hooks,
                           ts_lane *lane) {
  ts_deepfm *d = (ts_deepfm *)m;
  const ts_deepfm_task arg = {d, batch};
  TS_DO(ts_concat_forward(&d->x, d->arch.b, emb, batch, lane));
  TS_DO(ts_mlp_forward(d->deep, &d->deep_y, d->x.x, batch, hooks, lane));
  TS_DO(ts_lane_submit(lane, "interaction", join_task, &arg, sizeof arg));
  return ts_mlp_forward(d->arch.over, logits, d->h, batch, hooks, lane);
}

static ts_err over_backward(ts_model *m, float *dlogits,
                            const ts_emb_views *emb, int32_t batch,
                            const ts_layer_hooks *hooks, ts_lane *lane) {
  ts_deepfm *d = (ts_deepfm *)m;
  const ts_deepfm_task arg = {d, batch};
  TS_DO(ts_mlp_backward(d->arch.over, d->dh, dlogits, batch, hooks, lane));
  TS_DO(ts_lane_submit(lane, "interaction backward", deep_task, &arg,
                       sizeof arg));
  TS_DO(ts_mlp_backward(d->deep, d->x.dx, d->ddeep, batch, hooks, lane));
  TS_DO(
      ts_lane_submit(lane, "interaction backward", add_task, &arg, sizeof arg));
  return ts_concat_backward(&d->x, emb, batch, lane);
}

const ts_model_ops ts_model_deepfm = {.kind = "deepfm",
                                      .products = products,
                                      .create = create,
                                      .destroy = destroy,
                                      .dense_forward = ts_arch_dense_forward,
                                      .over_forward = over_forward,
                                      .over_backward = over_backward,
                                      .dense_backward = ts_arch_dense_backward};
