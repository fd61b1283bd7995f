/* stages.c - what happens to a batch; pipelines decide when. */
#include <string.h>

#include "base/mem.h"
#include "runtime/trace.h"
#include "train/trainer.h"

/* Any rank's error is everyone's: its message is shared. */
static ts_err judge(ts_trainer *t, const ts_status *all, ts_err own,
                    ts_verdict *v) {
  ts_err worst = TS_OK;
  int n_done = 0;
  *v = (ts_verdict){0};
  for (int r = 0; r < t->n_ranks; r++) {
    if (worst == TS_OK) worst = (ts_err)all[r].err;
    n_done += all[r].done != 0;
    if (all[r].stop > v->stop) v->stop = all[r].stop;
    v->n_global += all[r].n;
    v->weight_sum += all[r].weight_sum;
  }
  v->end = n_done > 0;
  return worst == TS_OK ? TS_OK : ts_agree(t->control, own);
}

ts_err ts_stage_input(ts_trainer *t, const ts_batch *batch, ts_err read,
                      int stop, ts_verdict *v) {
  ts_err err = TS_OK;
  const ts_status *all;
  const ts_kjt none = {0};
  ts_status own = {.err = read,
                   .stop = stop,
                   .n = batch ? batch->n : 0,
                   .done = !batch && read == TS_OK,
                   .weight_sum = batch ? batch->weight_sum : 0};
  double t0 = ts_now();
  TS_TRY(ts_ebc_input_begin(t->flight, batch ? &batch->kjt : &none, &own,
                            t->data));
  TS_TRY(ts_ebc_statuses(t->flight, &all));
  ts_timer_add("wait for input dist", ts_now() - t0);
  TS_TRY(judge(t, all, (ts_err)all[t->rank].err, v));
  if (v->end) goto done;
  TS_TRY(ts_ebc_input_end(t->flight, t->data));
done:
  return err;
}

ts_err ts_stage_forward(ts_trainer *t, const ts_batch *batch, float **logits) {
  ts_err err = TS_OK;
  const ts_model_ops *m = t->model->ops;
  TS_TRY(ts_ebc_lookup(t->flight, t->compute));
  /* The bottom of the model runs while embeddings travel. */
  TS_TRY(m->dense_forward(t->model, batch->dense, batch->n, t->compute));
  TS_TRY(ts_ebc_output_end(t->flight, t->compute));
  const ts_emb_views views = {
      ts_flight_emb(t->flight), ts_flight_grad(t->flight),
      ts_flight_stride(t->flight), ts_ebc_n_features(t->ebc)};
  TS_TRY(m->over_forward(t->model, logits, &views, batch->n, t->compute));
done:
  return err;
}

typedef struct ts_loss_arg {
  ts_trainer *t;
  const float *logits, *labels, *weights;
  double scale;
  int32_t n;
  bool with_grad;
} ts_loss_arg;

/* Weights of (sample, task) pairs, NULL where all are 1. */
static const float *pair_weights(const ts_loss_arg *a) {
  const ts_config *c = a->t->config;
  const int32_t n_tasks = a->t->n_tasks;
  if (n_tasks == 1 && c->model.tasks[0].weight == 1.0) return a->weights;
  for (int32_t b = 0; b < a->n; b++)
    for (int32_t k = 0; k < n_tasks; k++)
      a->t->weights[(int64_t)b * n_tasks + k] =
          (float)c->model.tasks[k].weight * (a->weights ? a->weights[b] : 1.0f);
  return a->t->weights;
}

static ts_err loss_task(void *p, ts_lane *lane) {
  (void)lane;
  const ts_loss_arg *a = p;
  ts_bce_args bce = {.loss_sum = &a->t->loss_sum,
                     .grad = a->with_grad ? a->t->dlogits : NULL,
                     .prediction = a->t->predictions,
                     .logits = a->logits,
                     .labels = a->labels,
                     .weights = pair_weights(a),
                     .scale = a->scale,
                     .n = (int64_t)a->n * a->t->n_tasks};
  return a->t->kernels.bce(&bce);
}

ts_err ts_stage_loss(ts_trainer *t, const float *logits, const ts_batch *batch,
                     double weight_sum, bool with_grad) {
  ts_loss_arg arg = {.t = t,
                     .logits = logits,
                     .labels = batch->labels,
                     .weights = batch->weights,
                     .scale = weight_sum > 0 ? 1.0 / weight_sum : 0.0,
                     .n = batch->n,
                     .with_grad = with_grad};
  return ts_lane_submit(t->compute, "loss", loss_task, &arg, sizeof arg);
}

ts_err ts_stage_backward(ts_trainer *t, const ts_batch *batch, int64_t step) {
  ts_err err = TS_OK;
  const ts_model_ops *m = t->model->ops;
  const ts_grad_hook hook = {ts_ddp_ready, t->ddp};
  const double factor = ts_schedule_factor(t->config, step);
  const ts_emb_views views = {
      ts_flight_emb(t->flight), ts_flight_grad(t->flight),
      ts_flight_stride(t->flight), ts_ebc_n_features(t->ebc)};
  TS_TRY(ts_ddp_begin(t->ddp, step, true));
  TS_TRY(m->over_backward(t->model, t->dlogits, &views, batch->n, &hook,
                          t->compute));
  TS_TRY(ts_ebc_backward_begin(t->flight, t->compute));
  /* The rest of the dense backward runs while gradients travel. */
  TS_TRY(m->dense_backward(t->model, batch->n, &hook, t->compute));
  TS_TRY(ts_ebc_backward_end(t->flight, factor, step, t->compute));
  const ts_params *late = ts_ebc_params(t->ebc);
  for (int32_t i = late->n - 1; i >= 0; i--)
    TS_TRY(ts_ddp_ready(t->ddp, late->item[i], t->compute));
  TS_TRY(ts_ddp_end(t->ddp, NULL, t->compute));
done:
  return err;
}

ts_err ts_stage_metrics(ts_trainer *t, ts_metrics **metrics,
                        const ts_batch *batch) {
  ts_err err = TS_OK;
  for (int32_t k = 0; k < t->n_tasks; k++)
    TS_TRY(ts_metrics_add(metrics[k], t->predictions + k, batch->labels + k,
                          batch->weights, batch->n, t->n_tasks));
done:
  return err;
}
