/* base.c - the plain pipeline: one batch under way, each stage after the
 * other.  Only work inside a step overlaps: the bottom MLP runs while ids and
 * embeddings travel, and the dense reductions under the backward pass. */
#include "train/graph.h"
#include "train/pipeline.h"

static ts_err train(ts_trainer *t, ts_loader *loader, int stop,
                    ts_step_result *result) {
  (void)loader, (void)stop;
  ts_inflight *c = ts_inflight_at(t, 0);
  const bool judged = t->config->run.on_nan != TS_ON_NAN_STOP;
  ts_event loss;
  TS_DO(ts_step_graph_begin(t, TS_PART_FORWARD));
  TS_DO(ts_stage_forward(t, c, true, &loss));
  if (judged) TS_DO(ts_step_graph_end(t));
  TS_DO(ts_stage_judge_loss(t, loss, &result->skipped));
  if (!result->skipped) {
    TS_DO(ts_step_graph_begin(t, TS_PART_BACKWARD));
    TS_DO(ts_stage_backward(t, c, t->step + 1, (ts_look_ahead){0},
                            (ts_event){0}));
    TS_DO(ts_stage_optimize(t));
  }
  TS_DO(ts_step_graph_end(t));
  return ts_stage_finish(t, c, loss, t->metrics, result);
}

extern const ts_pipeline_ops ts_pipeline_base;
const ts_pipeline_ops ts_pipeline_base = {.name = "base",
                                          .n_inflight = 1,
                                          .n_filled = 1,
                                          .has_graph = true,
                                          .train = train};
