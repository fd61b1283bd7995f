/* fused_sparse_dist.c - sparse_dist, and the next batch's lookup right after
 * the tables' updates.
 *
 *     data    | pack(i+1) ... unpack(i+1)          (lookup(i+1))
 *     ahead   |                                     lookup(i+1), output dist
 *     compute | forward(i)  backward(i), tables(i) | optimizer(i)
 *
 * Row optimizers are fused into the backward pass, so embeddings can be
 * looked up and sent while the dense gradients are still being reduced and
 * applied.  Tables whose output travels in one message (a sharding, shard/) are
 * looked up right behind their own updates, while others are still being
 * updated.  An event after those holds the lookup back on any lane; so nothing
 * about a step's values differs from base.
 *
 * On a discrete device the host comes to step i while step i-1 runs, and waits
 * for none of it before forward(i): batch i+1 has a third batch in flight, and
 * where it would be packed behind lookup(i), on the same lane, it comes after
 * forward(i), since on a GPU the host waits for sizes while it packs.
 *
 *     pipeline.lookup       enqueued before or after the dense optimizer
 *     pipeline.lookup_lane  data_dist: on input dist's lane, which then waits
 *                           with the batch after it; own: a lane of its own;
 *                           compute: before the optimizer, on its lane
 *
 * A feature processor's weights are dense parameters, which the lookup would
 * read before their update: refused. */
#include <string.h>

#include "train/pipeline.h"

static ts_lane *lookup_lane(const ts_trainer *t) {
  const char *lane = t->config->pipeline.lookup_lane;
  return !strcmp(lane, "own")       ? t->ahead
         : !strcmp(lane, "compute") ? t->compute
                                    : t->data;
}

/* Behind the dense optimizer. */
static ts_err look_up(ts_trainer *t, ts_inflight *c, ts_event updated) {
  ts_lane *lane = lookup_lane(t);
  TS_DO(ts_lane_wait(lane, updated));
  TS_DO(ts_stage_lookup(t, c, lane));
  if (lane != t->compute) c->ready = ts_lane_record(lane);
  return TS_OK;
}

static ts_err update(ts_trainer *t, ts_inflight *c) {
  const bool before = !strcmp(t->config->pipeline.lookup, "before_optimizer");
  ts_inflight *next = ts_pipeline_has(t, 1) ? ts_inflight_at(t, 1) : NULL;
  const ts_look_ahead ahead = {before ? next : NULL, lookup_lane(t), false};
  TS_DO(ts_stage_backward(t, c, t->step + 1, ahead, (ts_event){0}));
  const ts_event updated = ts_lane_record(t->compute);
  TS_DO(ts_stage_optimize(t));
  if (next && !before) TS_DO(look_up(t, next, updated));
  return TS_OK;
}

static ts_err send_next(ts_trainer *t, ts_loader *loader, int stop) {
  ts_inflight *next = ts_inflight_at(t, 1);
  ts_stage_load(t, next, loader);
  return ts_stage_input_begin(t, next, stop);
}

static ts_err train(ts_trainer *t, ts_loader *loader, int stop,
                    ts_step_result *result) {
  ts_inflight *c = ts_inflight_at(t, 0);
  const bool later = t->late && lookup_lane(t) == t->data;
  ts_event loss;
  if (!later) TS_DO(send_next(t, loader, stop));
  TS_DO(ts_stage_forward(t, c, true, &loss));
  if (later) TS_DO(send_next(t, loader, stop));
  TS_DO(ts_stage_judge_loss(t, loss, &result->skipped));
  TS_DO(ts_pipeline_receive(t, 1, result));
  if (!result->skipped) TS_DO(update(t, c));
  return ts_stage_finish(t, c, loss, t->metrics, result);
}

static ts_err check(const ts_trainer *t) {
  if (ts_ebc_has_processors(t->ebc))
    return ts_fail(TS_ERR_DECK,
                   "pipeline.kind = \"fused_sparse_dist\" looks up before the "
                   "dense optimizer has updated position weights: take "
                   "sparse_dist for tables with a feature_processor");
  return TS_OK;
}

static const ts_pipeline_variant variants[] = {
    {"before", "data_dist", false}, {"before", "own", false},
    {"before", "compute", false},   {"after", "data_dist", false},
    {"after", "own", false},        {"after", "compute", false}};

extern const ts_pipeline_ops ts_pipeline_fused_sparse_dist;
const ts_pipeline_ops ts_pipeline_fused_sparse_dist = {.name =
                                                           "fused_sparse_dist",
                                                       .n_inflight = 2,
                                                       .n_behind = 1,
                                                       .n_filled = 1,
                                                       .has_ahead = true,
                                                       .hides_input = true,
                                                       .variants = variants,
                                                       .n_variants = 6,
                                                       .check = check,
                                                       .train = train};
