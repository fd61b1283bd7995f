/* planning_dense.c - what the dense part of the model takes: it is built, for
 * no longer than it takes to look.  So every model is known as it is, but for
 * those that would be too large to build (ts_named.grows): they are counted. */
#include <math.h>
#include <string.h>

#include "base/dense_columns.h"
#include "base/mem.h"
#include "base/tasks.h"
#include "dense/linear.h"
#include "dense/param_optim.h"
#include "io/batch_store.h"
#include "model/named.h"
#include "runtime/arrays.h"
#include "runtime/trace.h"
#include "train/pipeline.h"
#include "train/planning.h"

enum { TIMED_SAMPLES = 1024, TIMED_STEPS = 3, LARGE = 1 << 25 };

/* The host's memory, and that of a discrete device. */
static double now_bytes(void) {
  return (double)(ts_mem_total(TS_SPACE_HOST).now_bytes +
                  ts_mem_total(TS_SPACE_DEVICE).now_bytes);
}

/* Batches held at once, their copies on a device apart, and predictions. */
static ts_err batch_bytes(double *bytes, const ts_trainer *t, int32_t batch,
                          const ts_plan_stats *stats) {
  enum { READ_AHEAD = 4 };
  ts_err err = TS_OK;
  const ts_config *c = t->config;
  const int64_t ring = c->data.synthetic.ring;
  const int64_t ahead = ring > READ_AHEAD ? ring : READ_AHEAD;
  const int32_t n_features = ts_feature_count(c);
  ts_batch_store *store = NULL;
  double *pooling = NULL;
  size_t copied;
  TS_TRY(ts_mem_many(pooling, n_features, MISC));
  for (int32_t f = 0; f < n_features; f++) pooling[f] = stats[f].pooling;
  TS_TRY(ts_batch_store_create(&store, c, NULL));
  TS_TRY(ts_batch_store_expect(store, c, batch, pooling));
  *bytes = (double)ts_batch_store_bytes(store, &copied) *
           (double)(t->n_stores ? t->n_stores : ahead);
  if (ts_planning_discrete(t))
    *bytes += (double)copied * ts_pipeline_n_inflight(c, true);
  *bytes += 12.0 * batch * ts_tasks_width(c, t->n_tasks);
done:
  ts_batch_store_destroy(store);
  ts_mem_free(pooling);
  return err;
}

/* Bytes of the metrics: sums of steps, and samples as far as the run will fill
 * their ring. */
static double metrics_bytes(const ts_trainer *t, double n_ranks,
                            int64_t global_batch) {
  const ts_config *c = t->config;
  double samples = fmin((double)c->metrics.window, TS_AUC_SAMPLES);
  if (c->run.steps > 0)
    samples = fmin(samples, 1.5 * (double)c->run.steps * (double)global_batch);
  return t->n_tasks * (ts_metrics_sums_bytes() + 12 * samples / n_ranks);
}

typedef struct ts_rehearsal {
  ts_model *model;
  ts_arrays arrays; /* of the device */
  float *grads, *emb, *grad_emb, *dense, *dlogits;
  const float **view;
  float **grad_view;
  int64_t *stride;
  int32_t n_features, n;
  int64_t width;     /* of all embeddings of a sample */
  ts_jagged *tokens; /* one of each feature and sample; of candidates none */
  ts_spread *spread; /* (n_features) of no candidates */
  float *none;       /* (n) lengths of 0 */
} ts_rehearsal;

static void point(ts_rehearsal *r, const ts_config *c) {
  int64_t at = 0;
  for (int32_t f = 0; f < r->n_features; f++) {
    r->view[f] = r->emb + at;
    r->grad_view[f] = r->grad_emb + at;
    r->stride[f] = r->width;
    r->tokens[f].n_ids = r->n;
    at += ts_feature_table(c, f, NULL)->dim;
  }
  for (int32_t k = 0; k < c->model.n_tasks; k++)
    if (ts_task_is_of_items(&c->model.tasks[k]))
      r->tokens[ts_task_candidates(c, &c->model.tasks[k])] =
          (ts_jagged){.lengths = (const int32_t *)r->none};
}

static ts_err take(ts_rehearsal *r, ts_trainer *t, float **p, int64_t n) {
  return ts_arrays_take(&r->arrays, t->device, p, n, sizeof **p, TS_TAG_MISC);
}

static ts_err prepare(ts_rehearsal *r, ts_trainer *t) {
  const int64_t n = r->n;
  float *at = NULL;
  TS_DO(take(r, t, &r->grads, ts_params_room(&r->model->params)));
  TS_DO(take(r, t, &r->emb, n * r->width));
  TS_DO(take(r, t, &r->grad_emb, n * r->width));
  TS_DO(take(r, t, &r->dense, n * (ts_dense_width(t->config) + 1)));
  TS_DO(take(r, t, &r->dlogits, n * ts_tasks_width(t->config, t->n_tasks)));
  TS_DO(ts_mem_array(&r->view, r->n_features, sizeof *r->view, TS_TAG_MISC));
  TS_DO(ts_mem_array(&r->grad_view, r->n_features, sizeof *r->grad_view,
                     TS_TAG_MISC));
  TS_DO(ts_mem_array(&r->stride, r->n_features, 8, TS_TAG_MISC));
  TS_DO(ts_mem_many(r->tokens, r->n_features, MISC));
  TS_DO(ts_mem_many(r->spread, r->n_features, MISC));
  TS_DO(take(r, t, &r->none, n));
  point(r, t->config);
  at = r->grads;
  for (int32_t i = 0; i < r->model->params.n; i++) {
    r->model->params.item[i]->grad = at;
    at += ts_param_room(r->model->params.item[i]->n);
  }
  return TS_OK;
}

static ts_err step(ts_rehearsal *r, ts_trainer *t) {
  ts_model *m = r->model;
  const ts_emb_views views = {r->view,       r->grad_view, r->stride,
                              r->n_features, r->tokens,    r->spread};
  float *logits;
  TS_DO(ts_model_dense_forward(m, r->dense, r->n, NULL, t->compute));
  TS_DO(ts_model_over_forward(m, &logits, &views, r->n, NULL, t->compute));
  TS_DO(ts_model_over_backward(m, r->dlogits, &views, r->n, NULL, t->compute));
  TS_DO(ts_model_dense_backward(m, r->n, NULL, t->compute));
  return ts_lane_sync(t->compute);
}

static ts_err rehearse(ts_rehearsal *r, ts_trainer *t, double flops,
                       double *gflops) {
  ts_err err = TS_OK;
  double best = INFINITY;
  TS_TRY(prepare(r, t));
  for (int i = 0; i < TIMED_STEPS; i++) {
    const double t0 = ts_now();
    TS_TRY(step(r, t));
    if (i > 0) best = fmin(best, ts_now() - t0);
  }
  *gflops = 1e-9 * flops * r->n / fmax(best, 1e-9);
done:
  for (int32_t i = 0; i < r->model->params.n; i++)
    r->model->params.item[i]->grad = NULL;
  ts_arrays_reset(&r->arrays);
  ts_mem_free_all(r->view, r->grad_view, r->stride, r->tokens, r->spread);
  return err;
}

/* Weights of a model, of the layer that has most, and those that may travel in
 * bf16; floats of states and averages. */
typedef struct ts_weights {
  double all, largest, half, state;
} ts_weights;

/* Layers are one after the other. */
static ts_err count_params(ts_weights *out, const ts_params *ps,
                           const ts_config *c) {
  ts_weights w = {0};
  ts_optim_config optim;
  double layer = 0;
  for (int32_t i = 0; i < ps->n; i++) {
    const bool same = i && !strcmp(ps->item[i]->group, ps->item[i - 1]->group);
    layer = (same ? layer : 0) + (double)ps->item[i]->n;
    w.all += (double)ps->item[i]->n;
    if (ps->item[i]->half) w.half += (double)ps->item[i]->n;
    w.largest = fmax(w.largest, layer);
    TS_DO(ts_param_optim(&optim, c, ps->item[i]));
    w.state += (double)ps->item[i]->n *
               (ts_param_n_states(&optim, ps->item[i]) +
                (c->optimizer.ema > 0 && !ps->item[i]->frozen));
  }
  *out = w;
  return TS_OK;
}

static int longest(const ts_prefetch_config *lists, int32_t n) {
  int k = 1;
  for (int32_t i = 0; i < n; i++)
    if (lists[i].prefetch.n > k) k = lists[i].prefetch.n;
  return k;
}

/* Cut over the ranks: dense/fully_sharded.h.  Gathered twice, or once where
 * layers stay, and reduced. */
static void fill_sharded(ts_plan_dense *d, const ts_config *c, ts_weights w,
                         double n_ranks, double wire_bytes) {
  const double gathered = 4 * w.all - 2 * w.half;
  const double own = 4 * w.all / n_ranks;
  d->n_comms = c->dense.reshard > 1 ? 3 : 2;
  const bool recycled =
      c->optimizer.in_backward && !(c->optimizer.clip_norm > 0);
  const int forward =
      2 + longest(c->dense.forward_prefetch, c->dense.n_forward_prefetch);
  const int backward =
      2 + c->dense.reduce_inputs +
      longest(c->dense.backward_prefetch, c->dense.n_backward_prefetch);
  d->param_bytes =
      own + 4 * w.state / n_ranks + (recycled ? 8 * w.largest / n_ranks : own);
  if (c->dense.reshard == 1) d->param_bytes += 4 * w.all;
  if (c->dense.reshard > 1) d->param_bytes += gathered / c->dense.reshard;
  d->reduce_bytes =
      0.5 * wire_bytes * w.all + gathered * (c->dense.reshard == 1 ? 0.5 : 1);
  /* And what a reduction receives. */
  d->bucket_bytes = 4 * w.largest * (fmax(forward, backward) + 1);
}

static void fill_replicated(ts_plan_dense *d, const ts_config *c, ts_weights w,
                            double wire_bytes) {
  const double mib = c->dense.bucket_mb > 0 ? c->dense.bucket_mb : 25;
  d->param_bytes = 4 * (2 * w.all + w.state);
  d->reduce_bytes = wire_bytes * w.all;
  d->n_comms = 1;
  d->bucket_bytes = fmin(4 * w.all, mib * (1 << 20));
  if (c->comm.ordered && wire_bytes == 4) d->sum_bytes = d->bucket_bytes;
}

/* Fills D from the number of weights, and of products of activations. */
static ts_err fill(ts_plan_dense *d, const ts_config *c, ts_weights w,
                   double products, double n_ranks) {
  ts_dtype wire;
  TS_DO(ts_parallel_wire(&wire, c));
  if (ts_parallel_defers(c))
    fill_sharded(d, c, w, n_ranks, (double)ts_dtype_bytes(wire));
  else
    fill_replicated(d, c, w, (double)ts_dtype_bytes(wire));
  /* Two operations forward, four backward, for each weight and product. */
  d->flops = 6 * (w.all + products);
  return TS_OK;
}

static ts_err look(ts_plan_dense *d, double *gflops, ts_trainer *t,
                   const ts_model_spec *spec, double products, double n_ranks) {
  ts_err err = TS_OK;
  const ts_config *c = t->config;
  const int32_t batch = spec->batch_max;
  ts_rehearsal r = {.n_features = spec->n_features,
                    .n = batch < TIMED_SAMPLES ? batch : TIMED_SAMPLES};
  if (c->data.max_tokens && c->data.max_tokens < r.n)
    r.n = (int32_t)c->data.max_tokens; /* one of each sample */
  const double before = now_bytes();
  ts_weights w;
  for (int32_t f = 0; f < r.n_features; f++)
    r.width += ts_feature_table(c, f, NULL)->dim;
  TS_TRY(ts_model_create(&r.model, spec, t->device, t->compute));
  TS_TRY(count_params(&w, &r.model->params, c));
  d->other_bytes =
      now_bytes() - before - (r.model->params.deferred ? 0 : 4 * w.all);
  TS_TRY(fill(d, c, w, products, n_ranks));
  for (int32_t i = 0; i < r.model->params.n; i++) {
    const double bytes = 4.0 * (double)r.model->params.item[i]->n;
    d->bucket_bytes = fmax(d->bucket_bytes, bytes);
  }
  if (gflops) TS_TRY(rehearse(&r, t, d->flops, gflops));
done:
  ts_model_destroy(r.model);
  return err;
}

ts_err ts_planning_dense(ts_plan_dense *d, double *gflops, ts_trainer *t,
                         int32_t batch, const ts_plan_stats *stats,
                         int n_ranks) {
  const ts_config *c = t->config;
  const ts_model_spec spec = {.config = c,
                              .n_features = ts_feature_count(c),
                              .batch_max = (int32_t)ts_balance_most(
                                  c, (int64_t)batch * n_ranks, n_ranks),
                              .batch_share = c->run.accumulate > 1 ? 0 : batch,
                              .training = true,
                              .deferred = !gflops,
                              .kernels = &t->kernels,
                              .n_ranks = n_ranks};
  const ts_named *named = ts_named_of(c);
  ts_model_count n;
  double batches;
  *d = (ts_plan_dense){0};
  TS_DO(ts_model_counted(&n, &spec));
  if (named && named->grows && n.weights > LARGE) {
    d->other_bytes = 4 * n.activations * batch;
    const bool half =
        ts_linear_precision(c->run.precision, &t->kernels) == TS_PRECISION_BF16;
    ts_optim_config optim = c->optimizer.base;
    TS_DO(ts_dense_optim_check(&optim, "optimizer"));
    const int n_states =
        ts_dense_optim_n_states(&optim) + (c->optimizer.ema > 0);
    const ts_weights w = {n.weights, n.largest, half ? n.weights : 0,
                          n_states * n.weights};
    TS_DO(fill(d, c, w, n.products, n_ranks));
  } else {
    TS_DO(look(d, gflops, t, &spec, n.products, n_ranks));
  }
  TS_DO(batch_bytes(&batches, t, batch, stats));
  d->other_bytes +=
      batches + metrics_bytes(t, n_ranks, (int64_t)batch * n_ranks);
  return TS_OK;
}
