/* sparse_dist.c - input dist one batch ahead.
 *
 *     data   |             pack(i+1)  exchange ....  unpack(i+1)
 *     compute| lookup(i) .. forward(i)  backward(i)  optimizer(i)
 *
 * Ids of the next batch are packed and travel while this one computes, and
 * the host never waits for sizes that are not there yet.  They begin when
 * this batch's embeddings have arrived: before that nothing would hide them
 * but the lookup.  Where the forward pass is a graph, which is done as a whole,
 * they begin behind the backward pass: the host has something to ask of them,
 * and the device something to do meanwhile.  Nothing about a step's values
 * differs from base. */
#include "train/graph.h"
#include "train/pipeline.h"

static ts_err begin_next(ts_trainer *t, ts_loader *loader, int stop) {
  ts_inflight *next = ts_inflight_at(t, 1);
  TS_DO(ts_lane_wait(t->data, ts_inflight_at(t, 0)->arrived));
  ts_stage_load(t, next, loader);
  return ts_stage_input_begin(t, next, stop);
}

static ts_err update(ts_trainer *t) {
  TS_DO(ts_step_graph_begin(t, TS_PART_BACKWARD));
  TS_DO(ts_stage_backward(t, ts_inflight_at(t, 0), t->step + 1,
                          (ts_look_ahead){0}, (ts_event){0}));
  TS_DO(ts_stage_optimize(t));
  return ts_step_graph_end(t);
}

static ts_err train(ts_trainer *t, ts_loader *loader, int stop,
                    ts_step_result *result) {
  ts_inflight *c = ts_inflight_at(t, 0);
  ts_event loss;
  TS_DO(ts_step_graph_begin(t, TS_PART_FORWARD));
  TS_DO(ts_stage_forward(t, c, true, &loss));
  const bool whole = ts_step_graph_is_open();
  TS_DO(ts_step_graph_end(t));
  if (!whole) TS_DO(begin_next(t, loader, stop));
  TS_DO(ts_stage_judge_loss(t, loss, &result->skipped));
  if (!result->skipped) TS_DO(update(t));
  if (whole) TS_DO(begin_next(t, loader, stop));
  TS_DO(ts_pipeline_receive(t, 1, result));
  return ts_stage_finish(t, c, loss, t->metrics, result);
}

extern const ts_pipeline_ops ts_pipeline_sparse_dist;
const ts_pipeline_ops ts_pipeline_sparse_dist = {.name = "sparse_dist",
                                                 .n_inflight = 2,
                                                 .n_filled = 1,
                                                 .hides_input = true,
                                                 .has_graph = true,
                                                 .train = train};
