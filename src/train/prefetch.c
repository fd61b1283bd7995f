/* prefetch.c - sparse_dist for tables with a cache: rows of the next batch
 * are brought into fast memory while this one computes.
 *
 *     data    |   pack(i+2) ... unpack(i+2)
 *     ahead   |   prefetch(i+1)
 *     compute | lookup(i) forward(i) backward(i) | tables(i) optimizer(i)
 *
 * Two fences: the tables' updates of batch i wait for prefetch(i+1), so no
 * row is evicted or fetched while it is written; and input dist of batch i+2
 * begins behind prefetch(i+1), which is wanted first.  On a discrete device
 * step i-1 may still run when the host comes to prefetch(i+1), which then waits
 * for its end.
 *
 * With cache.depth D it is batch i+D whose rows are fetched under batch i.
 * Then a batch that waits may have rows without a line for which a later one
 * was given lines: the lookup asks anew where those are, and only after it
 * the next prefetch begins; the first ones all end before the first lookup. */
#include "train/pipeline.h"

static ts_err fill_cache(ts_trainer *t, ts_inflight *c) {
  ts_inflight_trace(c, "prefetch");
  TS_DO(ts_ebc_prefetch(c->ebc_batch, t->ahead));
  c->ready = ts_lane_record(t->ahead);
  return TS_OK;
}

/* At the start there is nothing to fetch the first batches under: compute
 * waits for all of them, since what it does with the first one must not meet
 * the fetching of another. */
static ts_err fill_first(ts_trainer *t) {
  ts_event fetched = {0};
  for (int k = 0; k < t->depth && ts_pipeline_has(t, k); k++) {
    ts_inflight *c = ts_inflight_at(t, k);
    if (c->ready.lane) continue;
    TS_DO(fill_cache(t, c));
    fetched = c->ready;
  }
  return ts_stage_wait_rows(t, fetched);
}

static ts_err train(ts_trainer *t, ts_loader *loader, int stop,
                    ts_step_result *result) {
  const int depth = t->depth;
  ts_inflight *c = ts_inflight_at(t, 0), *next = ts_inflight_at(t, depth);
  ts_inflight *last = ts_inflight_at(t, depth + 1);
  const bool more = ts_pipeline_has(t, depth);
  ts_event loss, fetched = {0};
  TS_DO(fill_first(t));
  ts_inflight_trace(c, "forward");
  TS_DO(ts_stage_wait_rows(t, c->ready));
  if (depth > 1) TS_DO(ts_ebc_refresh(c->ebc_batch, t->compute));
  TS_DO(ts_stage_forward(t, c, true, &loss));
  TS_DO(ts_stage_judge_loss(t, loss, &result->skipped));
  if (more) {
    if (depth > 1) TS_DO(ts_lane_wait(t->ahead, c->arrived));
    TS_DO(ts_lane_wait(t->ahead, last->done)); /* its batch before: i-1 */
    TS_DO(fill_cache(t, next));
    fetched = next->ready;
    TS_DO(ts_lane_wait(t->data, fetched));
    ts_stage_load(t, last, loader);
    TS_DO(ts_stage_input_begin(t, last, stop));
  }
  if (!result->skipped) {
    TS_DO(ts_stage_backward(t, c, t->step + 1, (ts_look_ahead){0}, fetched));
    TS_DO(ts_stage_optimize(t));
  } else { /* nothing is released while rows are fetched */
    TS_DO(ts_lane_wait(t->compute, fetched));
  }
  if (more) TS_DO(ts_pipeline_receive(t, depth + 1, result));
  return ts_stage_finish(t, c, loss, t->metrics, result);
}

extern const ts_pipeline_ops ts_pipeline_prefetch;
const ts_pipeline_ops ts_pipeline_prefetch = {.name = "prefetch",
                                              .n_inflight = 3,
                                              .n_filled = 2,
                                              .has_ahead = true,
                                              .has_depth = true,
                                              .hides_input = true,
                                              .hides_rows = true,
                                              .train = train};
