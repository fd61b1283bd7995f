/* base.c - the plain pipeline: one batch under way, each stage after the
 * other.  What overlaps is inside the step: the bottom MLP runs while ids
 * and embeddings travel, and the dense reductions under the backward pass. */
#include "train/pipeline.h"

static ts_err train(ts_trainer *t, ts_cargo *c, ts_step_result *result) {
  ts_err err = TS_OK;
  ts_event loss;
  TS_TRY(ts_stage_forward(t, c, true, &loss));
  TS_TRY(ts_stage_judge_loss(t, loss, &result->skipped));
  if (!result->skipped) {
    TS_TRY(ts_stage_backward(t, c, t->step + 1, (ts_event){0}));
    TS_TRY(ts_stage_optimize(t));
  }
  TS_TRY(ts_stage_finish(t, c, loss, t->metrics, result));
done:
  return err;
}

static ts_err step(ts_trainer *t, ts_loader *loader, int stop,
                   ts_step_result *result) {
  ts_err err = TS_OK;
  ts_cargo *c = ts_cargo_at(t, 0);
  ts_stage_load(t, c, loader);
  TS_TRY(ts_stage_input_begin(t, c, stop));
  TS_TRY(ts_stage_input_end(t, c));
  TS_TRY(ts_stage_check(t, c));
  *result = (ts_step_result){.end = c->verdict.end, .stop = c->verdict.stop};
  if (!result->end) TS_TRY(train(t, c, result));
done:
  ts_stage_advance(t, loader);
  return err;
}

extern const ts_pipeline_ops ts_pipeline_base;
const ts_pipeline_ops ts_pipeline_base = {
    .name = "base", .n_cargo = 1, .step = step};
