/* pass.c - the model's way over a batch: what its layers and the loss get. */
#include "train/pass.h"

#include "io/split.h"

ts_emb_views ts_pass_views(const ts_trainer *t, const ts_inflight *c) {
  ts_ebc_batch *fl = c->ebc_batch;
  const ts_emb_views v = {ts_ebc_batch_emb(fl),
                          ts_ebc_batch_grad(fl),
                          ts_ebc_batch_stride(fl),
                          ts_ebc_n_features(t->ebc),
                          t->tokens,
                          t->spread};
  for (int32_t f = 0; t->tokens && f < v.n_features; f++) {
    t->tokens[f] = c->batch->kjt.features[f];
    t->tokens[f].lengths = ts_upload_address(c->upload, t->tokens[f].lengths);
    t->tokens[f].offsets = ts_upload_address(c->upload, t->tokens[f].offsets);
    t->tokens[f].ids = ts_upload_address(c->upload, t->tokens[f].ids);
    const ts_spread *once = ts_ebc_batch_spread(fl, f);
    t->spread[f] = once ? *once : (ts_spread){0};
  }
  return v;
}

typedef struct ts_loss_arg {
  ts_trainer *t;
  const float *logits, *labels, *weights, *log_variance;
  double scale;
  int32_t n;
  bool with_grad;
} ts_loss_arg;

static ts_err loss_task(void *p, ts_lane *lane) {
  (void)lane;
  const ts_loss_arg *a = p;
  ts_loss_args loss = {.loss_sum = a->t->loss_sum,
                       .grad = a->with_grad ? a->t->dlogits : NULL,
                       .prediction = a->t->predictions,
                       .logits = a->logits,
                       .labels = a->labels,
                       .weights = a->weights,
                       .tasks = a->t->tasks,
                       .log_variance = a->log_variance,
                       .log_variance_grad =
                           a->with_grad ? a->t->log_variance_grad : NULL,
                       .scale = a->scale,
                       .batch = a->n,
                       .n_tasks = a->t->n_tasks,
                       .n_logits = a->t->n_logits};
  return a->t->kernels.loss(&loss);
}

/* The weights that tasks learn; NULL: none. */
static ts_param *task_param(const ts_trainer *t) {
  return t->task_params.n ? t->task_params.item[0] : NULL;
}

/* All ranks' targets, where a loss wants to know. */
static void count_targets(ts_trainer *t, const ts_inflight *c) {
  const ts_status *all = ts_ebc_known_statuses(c->ebc_batch);
  for (int r = 0; t->n_targets && r < t->n_ranks; r++)
    t->n_targets[r] = all[r].n_targets;
}

ts_err ts_pass_model(ts_trainer *t, ts_inflight *c, const ts_layer_hooks *hooks,
                     bool with_grad, bool again, float **logits) {
  ts_model *m = t->model;
  const ts_batch *b = c->batch;
  if (!c->looked_up) TS_DO(ts_stage_lookup(t, c, t->compute));
  ts_inflight_trace(c, "forward");
  TS_DO(ts_lane_wait(t->compute, c->copied));
  count_targets(t, c);
  m->pass =
      (ts_model_pass){.training = with_grad,
                      .epoch = b->epoch,
                      .first = b->first,
                      .n_global = c->verdict.n_global,
                      .slices = ts_batch_slices(b),
                      .n_targets = t->n_targets,
                      .log_q = t->log_q,
                      .times = {ts_upload_address(c->upload, b->times.bags),
                                ts_upload_address(c->upload, b->times.ids)}};
  /* The bottom of the model runs while embeddings travel. */
  TS_DO(ts_model_dense_forward(m, c->inputs.dense, b->n, hooks, t->compute));
  if (!again) {
    TS_DO(ts_lane_wait(t->compute, c->ready));
    TS_DO(ts_ebc_output_end(c->ebc_batch, t->compute));
    c->arrived = ts_lane_record(t->compute);
  }
  const ts_emb_views views = ts_pass_views(t, c);
  return ts_model_over_forward(m, logits, &views, b->n, hooks, t->compute);
}

ts_err ts_pass_loss(ts_trainer *t, const ts_inflight *c,
                    const ts_layer_hooks *hooks, const float *logits,
                    bool with_grad) {
  const double sum = c->verdict.weight_sum;
  const ts_param *s = task_param(t);
  if (s) TS_DO(ts_layer_acquire(hooks, s, TS_FORWARD, t->compute));
  const ts_loss_arg arg = {.t = t,
                           .logits = logits,
                           .labels = c->inputs.labels,
                           .weights = c->inputs.weights,
                           .log_variance = s ? s->w : NULL,
                           .scale = sum > 0 ? 1.0 / sum : 0.0,
                           .n = c->batch->n,
                           .with_grad = with_grad};
  TS_DO(ts_lane_submit(t->compute, "loss", loss_task, &arg, sizeof arg));
  return s ? ts_layer_release(hooks, s, TS_FORWARD, t->compute) : TS_OK;
}

ts_err ts_pass_task_backward(ts_trainer *t, const ts_layer_hooks *hooks) {
  ts_param *s = task_param(t);
  if (!s) return TS_OK;
  TS_DO(ts_layer_acquire(hooks, s, TS_BACKWARD, t->compute));
  TS_DO(ts_lane_copy(t->compute, s->grad, t->log_variance_grad,
                     (size_t)s->n * sizeof(float)));
  TS_DO(ts_layer_ready(hooks, s, t->compute));
  return ts_layer_release(hooks, s, TS_BACKWARD, t->compute);
}
