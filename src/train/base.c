/* base.c - the plain pipeline: one batch in flight, each stage after the
 * other.  What overlaps is inside the step: the bottom MLP runs while ids
 * and embeddings travel, and the dense reductions under the backward pass. */
#include <math.h>

#include "train/pipeline.h"

static ts_err nothing(ts_trainer *t, ts_loader *loader) {
  (void)t, (void)loader;
  return TS_OK;
}

/* True on every rank when any rank's loss is not a number: only asked where
 * the deck wants such steps not to count, since it makes the host wait. */
static ts_err any_nan(ts_trainer *t, bool *out) {
  double bad = isfinite(t->loss_sum) ? 0.0 : 1.0;
  ts_err err = ts_comm_sum_f64(t->control, &bad, 1);
  *out = bad > 0;
  return err;
}

static ts_err train(ts_trainer *t, const ts_batch *batch,
                    ts_step_result *result) {
  ts_err err = TS_OK;
  float *logits;
  TS_TRY(ts_stage_forward(t, batch, &logits));
  TS_TRY(ts_stage_loss(t, logits, batch, result->weight_sum, true));
  ts_event loss = ts_lane_record(t->compute);
  if (t->config->run.on_nan != TS_ON_NAN_STOP) {
    TS_TRY(ts_event_sync(loss));
    TS_TRY(any_nan(t, &result->skipped));
  }
  if (!result->skipped) TS_TRY(ts_stage_backward(t, batch, t->step + 1));
  TS_TRY(ts_event_sync(loss));
  result->loss_sum = t->loss_sum;
  result->nan = !isfinite(t->loss_sum);
  if (!result->skipped && !result->nan)
    TS_TRY(ts_stage_metrics(t, t->metrics, batch));
  TS_TRY(ts_lane_sync(t->compute));
done:
  return err;
}

static ts_err step(ts_trainer *t, ts_loader *loader, int stop,
                   ts_step_result *result) {
  ts_err err = TS_OK;
  ts_batch *batch = NULL;
  ts_verdict verdict;
  ts_err read = ts_loader_next(loader, &batch);
  TS_TRY(ts_stage_input(t, batch, read, stop, &verdict));
  *result = (ts_step_result){.end = verdict.end,
                             .stop = verdict.stop,
                             .n_global = verdict.n_global,
                             .weight_sum = verdict.weight_sum};
  if (!verdict.end) TS_TRY(train(t, batch, result));
done:
  if (batch) ts_loader_release(loader, batch);
  return err;
}

extern const ts_pipeline_ops ts_pipeline_base;
const ts_pipeline_ops ts_pipeline_base = {
    .name = "base", .prime = nothing, .step = step, .drain = nothing};
