/* stages.c - what happens to a batch; pipelines decide when. */
#include <math.h>
#include <string.h>

#include "base/fault.h"
#include "base/tasks.h"
#include "dense/tally.h"
#include "io/split.h"
#include "runtime/trace.h"
#include "train/late.h"
#include "train/pass.h"
#include "train/recompute.h"

ts_inflight *ts_inflight_at(ts_trainer *t, int ahead) {
  return &t->inflight[(t->head + ahead) % t->n_inflight];
}

void ts_inflight_trace(const ts_inflight *c, const char *phase) {
  ts_trace_batch_set(c->batch ? c->batch->step : -1, phase);
}

/* ---- forward ------------------------------------------------------------- */

ts_err ts_stage_lookup(ts_trainer *t, ts_inflight *c, ts_lane *lane) {
  (void)t;
  ts_inflight_trace(c, "forward");
  c->looked_up = true;
  return ts_ebc_lookup(c->ebc_batch, lane);
}

ts_err ts_stage_forward(ts_trainer *t, ts_inflight *c, bool with_grad,
                        ts_event *loss) {
  const ts_layer_hooks hooks = ts_parallel_hooks(t->dense);
  const bool twice = with_grad && ts_recomputes(t);
  float *logits;
  if (ts_fault("internal"))
    return ts_fail(TS_ERR_INTERNAL, "internal error (fault asked for)");
  if (twice) TS_DO(ts_recompute_first(t, c));
  TS_DO(ts_pass_model(t, c, &hooks, with_grad, twice, &logits));
  TS_DO(ts_pass_loss(t, c, &hooks, logits, with_grad));
  if (t->late) TS_DO(ts_late_loss(t, c->batch->n, !with_grad));
  *loss = ts_lane_record(t->compute);
  return TS_OK;
}

ts_err ts_stage_items(ts_trainer *t, ts_inflight *c) {
  const ts_layer_hooks hooks = ts_parallel_hooks(t->dense);
  float *none;
  TS_DO(ts_pass_model(t, c, &hooks, false, false, &none));
  TS_DO(ts_ebc_release(c->ebc_batch, t->compute));
  TS_DO(ts_lane_sync(t->compute));
  return ts_ebc_input_wait(c->ebc_batch);
}

/* ---- backward ------------------------------------------------------------ */

ts_err ts_stage_judge_loss(ts_trainer *t, ts_event loss, bool *skip) {
  if (*skip || t->config->run.on_nan == TS_ON_NAN_STOP) return TS_OK;
  TS_DO(ts_event_sync(loss));
  const ts_late *l = t->late;
  const double sum = l ? l->losses[l->n_losses - 1] : *t->loss_sum;
  double bad = isfinite(sum) ? 0.0 : 1.0;
  TS_DO(ts_comm_sum_f64(t->control, &bad, 1));
  *skip = bad > 0; /* on all ranks alike */
  return TS_OK;
}

typedef struct ts_wait_clock {
  ts_trainer *t;
  double sign;
} ts_wait_clock;

static ts_err clock_task(void *p, ts_lane *lane) {
  (void)lane;
  const ts_wait_clock *c = p;
  c->t->prefetch_wait_s += c->sign * ts_now();
  return TS_OK;
}

ts_err ts_stage_wait_rows(ts_trainer *t, ts_event event) {
  if (!event.lane) return TS_OK;
  if (t->late) return ts_late_wait_rows(t, event);
  ts_wait_clock from = {t, -1}, to = {t, 1};
  TS_DO(ts_lane_submit(t->compute, "rows", clock_task, &from, sizeof from));
  TS_DO(ts_lane_wait(t->compute, event));
  return ts_lane_submit(t->compute, "rows", clock_task, &to, sizeof to);
}

typedef struct ts_follow {
  ts_trainer *t;
  ts_inflight *c; /* whose updates are enqueued */
  ts_look_ahead ahead;
} ts_follow;

static ts_err look_up_lot(void *arg, int32_t sharding) {
  const ts_follow *f = arg;
  ts_inflight *next = f->ahead.inflight;
  ts_lane *lane = f->ahead.lane;
  ts_inflight_trace(next, "forward");
  if (lane != f->t->compute)
    TS_DO(ts_lane_wait(lane, ts_lane_record(f->t->compute)));
  if (!next->looked_up) TS_DO(ts_ebc_lookup_begin(next->ebc_batch, lane));
  next->looked_up = true;
  TS_DO(ts_ebc_lookup_sharding(next->ebc_batch, sharding, lane));
  if (lane != f->t->compute) next->ready = ts_lane_record(lane);
  ts_inflight_trace(f->c, "backward");
  return TS_OK;
}

ts_err ts_stage_backward(ts_trainer *t, ts_inflight *c, int64_t step,
                         ts_look_ahead ahead, ts_event before_update) {
  ts_model *m = t->model;
  const ts_layer_hooks hooks = ts_recompute_hooks(t);
  const double factor = ts_parallel_rate(t->dense, step);
  const int32_t n = c->batch->n;
  const ts_emb_views views = ts_pass_views(t, c);
  const ts_params *late = ts_ebc_params(t->ebc);
  /* A short rest goes first: with it the last reduction begins. */
  const bool heavy = ts_params_heavy_below(&t->params);
  ts_follow follow = {t, c, ahead};
  const ts_ebc_updated then = {look_up_lot, &follow};
  ts_inflight_trace(c, "backward");
  TS_DO(ts_parallel_begin(t->dense, step, !c->more));
  ts_ebc_accumulate(t->ebc, c->more);
  TS_DO(ts_pass_task_backward(t, &hooks));
  TS_DO(ts_model_over_backward(m, t->dlogits, &views, n, &hooks, t->compute));
  TS_DO(ts_stage_check_finite(t, c));
  TS_DO(ts_recompute_tables(t, c, views.grad));
  TS_DO(ts_ebc_backward_begin(c->ebc_batch, t->compute));
  if (ahead.inflight && ahead.stale && heavy)
    TS_DO(ts_stage_lookup(t, ahead.inflight, t->compute));
  ts_inflight_trace(c, "backward");
  /* The rest of the dense backward runs while gradients travel. */
  TS_DO(ts_model_dense_backward(m, n, &hooks, t->compute));
  TS_DO(ts_recompute_compare(t));
  if (ahead.inflight && ahead.stale && !heavy)
    TS_DO(ts_stage_lookup(t, ahead.inflight, t->compute));
  ts_inflight_trace(c, "backward");
  TS_DO(ts_stage_wait_rows(t, before_update));
  TS_DO(ts_ebc_backward_end(c->ebc_batch, factor, step,
                            ahead.inflight && !ahead.stale ? &then : NULL,
                            t->compute));
  for (int32_t i = late->n - 1; i >= 0; i--)
    TS_DO(ts_layer_ready(&hooks, late->item[i], t->compute));
  return TS_OK;
}

ts_err ts_stage_optimize(ts_trainer *t) {
  ts_inflight_trace(ts_inflight_at(t, 0), "optimizer");
  return ts_parallel_end(t->dense, NULL, t->compute);
}

/* ---- the end ------------------------------------------------------------- */

const float *ts_stage_predictions(const ts_trainer *t) {
  return t->late ? t->late->predictions : t->predictions;
}

/* Of the first task, whose negatives are fewer in training than elsewhere. */
static void correct(ts_trainer *t, int32_t n) {
  float *p = t->late ? t->late->predictions : t->predictions;
  for (int64_t i = 0; t->negatives < 1 && i < n; i++)
    p[i * t->n_logits] =
        (float)ts_negatives_correct(p[i * t->n_logits], t->negatives);
}

ts_tally_args ts_stage_samples(const ts_trainer *t, int32_t k,
                               const float *predictions, const float *labels,
                               const float *weights, int64_t n) {
  return (ts_tally_args){.prediction =
                             predictions + ts_tasks_width(t->config, k),
                         .label = labels + k,
                         .weight = weights,
                         .n = n,
                         .row = t->n_logits,
                         .stride = t->n_tasks,
                         .classes = t->config->model.tasks[k].classes};
}

static ts_err add_metrics(ts_trainer *t, ts_metrics **metrics,
                          const ts_batch *b) {
  const float *predictions = ts_stage_predictions(t);
  for (int32_t k = 0; k < t->n_tasks; k++) {
    const ts_tally_args a =
        ts_stage_samples(t, k, predictions, b->labels, b->weights, b->n);
    TS_DO(ts_metrics_add(metrics[k], &a));
  }
  return TS_OK;
}

/* A training step on a discrete device. */
static ts_err finish_late(ts_trainer *t, ts_inflight *c,
                          ts_step_result *result) {
  const int32_t n = c->batch->n;
  for (int32_t k = 0; !result->skipped && n && k < t->n_tasks; k++) {
    ts_tally_args a = ts_stage_samples(t, k, t->predictions, c->inputs.labels,
                                       c->inputs.weights, n);
    a.loss = t->loss_sum;
    a.nan = t->late->nan;
    TS_DO(ts_metrics_tally(t->metrics[k], &a));
  }
  result->late = true;
  c->done = ts_lane_record(t->compute);
  return ts_late_end(t, c->done, c->more);
}

/* The host sees all of it. */
static ts_err finish_here(ts_trainer *t, ts_inflight *c, ts_event loss,
                          ts_metrics **metrics, ts_step_result *result) {
  TS_DO(ts_event_sync(loss));
  const bool training = metrics == t->metrics;
  result->loss_sum =
      t->late ? t->late->losses[t->late->n_losses - 1] : *t->loss_sum;
  result->nan = !isfinite(result->loss_sum);
  if (!training) correct(t, c->batch->n);
  if (!training || (!result->skipped && !result->nan))
    TS_DO(add_metrics(t, metrics, c->batch));
  if (t->late) TS_DO(ts_late_end(t, ts_lane_record(t->compute), c->more));
  TS_DO(ts_lane_sync(t->compute));
  return ts_ebc_input_wait(c->ebc_batch);
}

ts_err ts_stage_finish(ts_trainer *t, ts_inflight *c, ts_event loss,
                       ts_metrics **metrics, ts_step_result *result) {
  /* A batch without a backward pass still holds its rows. */
  TS_DO(ts_ebc_release(c->ebc_batch, t->compute));
  result->n_global = c->verdict.n_global;
  result->weight_sum = c->verdict.weight_sum;
  result->after = c->after;
  result->n_bad = c->batch->n_bad;
  result->n_bad_ids = c->batch->n_bad_ids;
  const bool training = metrics == t->metrics;
  TS_DO(t->late && training ? finish_late(t, c, result)
                            : finish_here(t, c, loss, metrics, result));
  for (int32_t k = 0; training && !c->more && k < t->n_tasks; k++)
    ts_metrics_step(metrics[k]);
  return TS_OK;
}

void ts_stage_drop(ts_trainer *t) {
  ts_parallel_drop(t->dense);
  ts_ebc_drop(t->ebc);
  /* An earlier micro-batch's. */
  if (!t->late)
    *t->bad_gradient = 0;
  else if (ts_late_clear(t, t->bad_gradient) != TS_OK)
    ts_err_clear(); /* the lane's, which keeps it */
}

void ts_inflight_empty(ts_inflight *c, ts_loader *loader) {
  /* The copy's own lane reports its error. */
  if (ts_event_sync(c->copied) != TS_OK) ts_err_clear();
  ts_upload_end(c->upload, c->done);
  if (loader && c->batch && !c->more) ts_loader_release(loader, c->batch);
  *c = (ts_inflight){
      .ebc_batch = c->ebc_batch, .micro = c->micro, .done = c->done};
}

void ts_stage_discard(ts_trainer *t, ts_inflight *c, ts_loader *loader) {
  ts_ebc_batch *ebc_batch = c->ebc_batch;
  if (c->begun && !c->judged) { /* its message is on the way */
    const ts_status *all;
    if (ts_ebc_statuses(ebc_batch, &all) != TS_OK) ts_err_clear();
  }
  if (c->judged && ts_lane_sync(t->data) != TS_OK) ts_err_clear();
  /* The whole lane, not c->ready: that is unset where only a part of the rows
   * could be asked for. */
  if (t->ahead && ts_lane_sync(t->ahead) != TS_OK) ts_err_clear();
  if (c->looked_up && ts_ebc_output_end(ebc_batch, t->compute) != TS_OK)
    ts_err_clear();
  if (c->judged && ts_ebc_release(ebc_batch, t->compute) != TS_OK)
    ts_err_clear();
  if (ts_lane_sync(t->compute) != TS_OK) ts_err_clear();
  ts_inflight_empty(c, loader);
}

void ts_stage_advance(ts_trainer *t, ts_loader *loader) {
  ts_inflight *c = ts_inflight_at(t, 0);
  ts_trace_batch_set(-1, "");
  ts_inflight_empty(c, loader);
  t->head++;
}
