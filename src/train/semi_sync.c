/* semi_sync.c - embeddings of the next batch are looked up before this
 * batch's update.
 *
 *     data    | pack(i+2) ... unpack(i+2)
 *     compute | forward(i) top(i) lookup(i+1) bottom(i) tables(i) optimizer(i)
 *     comm    |                   gradients(i) ...
 *             |                               output dist(i+1) ...
 *
 * top and bottom: the dense backward pass above and below the tables.  The
 * lookup and the bottom fill the time in which the gradients travel, output
 * dist is hidden under the bottom and the tables' updates, and the embeddings
 * of batch i+1 miss update i: another trajectory than base's, the same on any
 * number of ranks.
 *
 * It begins after pipeline.start_batch steps, before which this is
 * sparse_dist.
 *
 * pipeline.stash_gradients delays the dense update by one step, too: the
 * gradients of step i are applied at step i+1, and the first step after
 * start_batch only stashes.
 *
 * Checkpoints do not keep embeddings that were looked up ahead.  So at every
 * saved step the lookup is repeated (fence), and stashed gradients are applied,
 * as after the last step; a run that stops at a saved step and goes on has the
 * trajectory of one that did not stop. */
#include "train/pipeline.h"

static ts_err train(ts_trainer *t, ts_loader *loader, int stop,
                    ts_step_result *result) {
  ts_inflight *c = ts_inflight_at(t, 0), *next = ts_inflight_at(t, 1);
  ts_inflight *third = ts_inflight_at(t, 2);
  const bool more = ts_pipeline_has(t, 1);
  const bool stale = t->step >= t->config->pipeline.start_batch;
  ts_event loss;
  if (more) {
    ts_stage_load(t, third, loader);
    TS_DO(ts_stage_input_begin(t, third, stop));
  }
  TS_DO(ts_stage_forward(t, c, true, &loss));
  TS_DO(ts_stage_judge_loss(t, loss, &result->skipped));
  if (more) TS_DO(ts_pipeline_receive(t, 2, result));
  if (!result->skipped) {
    const ts_look_ahead ahead = {more && stale ? next : NULL, t->compute, true};
    TS_DO(ts_stage_backward(t, c, t->step + 1, ahead, (ts_event){0}));
    TS_DO(ts_parallel_stash(t->dense,
                            stale && t->config->pipeline.stash_gradients));
    TS_DO(ts_stage_optimize(t));
  }
  return ts_stage_finish(t, c, loss, t->metrics, result);
}

static ts_err fence(ts_trainer *t) {
  TS_DO(ts_parallel_unstash(t->dense, t->step, t->compute));
  return ts_pipeline_forget(t);
}

static ts_err check(const ts_trainer *t) {
  if (t->config->run.accumulate > 1)
    return ts_fail(TS_ERR_DECK,
                   "pipeline.kind = \"semi_sync\" looks up one batch before "
                   "the update, run.accumulate = %d updates after several: "
                   "take sparse_dist",
                   t->config->run.accumulate);
  if (t->config->pipeline.stash_gradients && t->config->optimizer.in_backward)
    return ts_fail(TS_ERR_DECK,
                   "pipeline.stash_gradients keeps gradients for the next "
                   "step and needs optimizer.in_backward = false");
  return TS_OK;
}

static const ts_pipeline_variant variants[] = {{.stash = false},
                                               {.stash = true}};

extern const ts_pipeline_ops ts_pipeline_semi_sync;
const ts_pipeline_ops ts_pipeline_semi_sync = {.name = "semi_sync",
                                               .n_inflight = 3,
                                               .n_behind = 1,
                                               .n_filled = 2,
                                               .hides_input = true,
                                               .variants = variants,
                                               .n_variants = 2,
                                               .check = check,
                                               .train = train,
                                               .fence = fence};
