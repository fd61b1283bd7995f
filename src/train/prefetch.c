/* prefetch.c - sparse_dist for tables with a cache: rows of the next batch
 * are brought into fast memory while this one computes.
 *
 *     data    |   pack(i+2) ... unpack(i+2)
 *     ahead   |   prefetch(i+1)
 *     compute | lookup(i) forward(i) backward(i) | tables(i) optimizer(i)
 *
 * Two fences: the tables' updates of batch i wait for prefetch(i+1), so no
 * row is evicted or fetched while it is written; and input dist of batch i+2
 * waits for prefetch(i+1), whose slots its unpacking would reuse. */
#include "train/pipeline.h"

static ts_err fill_cache(ts_trainer *t, ts_cargo *c) {
  ts_err err = TS_OK;
  if (c->read != TS_OK || c->verdict.end) return TS_OK;
  ts_cargo_trace(c, "prefetch");
  TS_TRY(ts_ebc_prefetch(c->flight, t->ahead));
  c->ready = ts_lane_record(t->ahead);
done:
  return err;
}

/* Batches 0 and 1 are there, 0 in the cache. */
static ts_err fill(ts_trainer *t, ts_loader *loader, int stop) {
  ts_err err = TS_OK;
  for (int k = 0; k < 2; k++) {
    ts_cargo *c = ts_cargo_at(t, k);
    if (c->judged) continue;
    ts_stage_load(t, c, loader);
    TS_TRY(ts_stage_input_begin(t, c, stop));
    TS_TRY(ts_stage_input_end(t, c));
    if (k == 0) TS_TRY(fill_cache(t, c));
    if (c->read != TS_OK || c->verdict.end) break;
  }
done:
  return err;
}

static ts_err train(ts_trainer *t, ts_loader *loader, int stop,
                    ts_step_result *result) {
  ts_err err = TS_OK;
  ts_cargo *c = ts_cargo_at(t, 0), *next = ts_cargo_at(t, 1);
  ts_cargo *third = ts_cargo_at(t, 2);
  const bool more = next->judged && next->read == TS_OK && !next->verdict.end;
  ts_event loss;
  TS_TRY(ts_lane_wait(t->compute, c->ready));
  TS_TRY(ts_stage_forward(t, c, true, &loss));
  TS_TRY(ts_stage_judge_loss(t, loss, &result->skipped));
  if (more) {
    TS_TRY(fill_cache(t, next));
    TS_TRY(ts_lane_wait(t->data, next->ready));
    ts_stage_load(t, third, loader);
    TS_TRY(ts_stage_input_begin(t, third, stop));
  }
  if (!result->skipped) {
    TS_TRY(ts_stage_backward(t, c, t->step + 1, next->ready));
    TS_TRY(ts_stage_optimize(t));
  }
  if (more) TS_TRY(ts_stage_input_end(t, third));
  if (next->verdict.stop > result->stop) result->stop = next->verdict.stop;
  if (third->verdict.stop > result->stop) result->stop = third->verdict.stop;
  ts_cargo_trace(c, "prefetch");
  /* Before the step's end: the batch after next is unpacked over these. */
  TS_TRY(ts_ebc_release(c->flight, t->compute));
  TS_TRY(ts_stage_finish(t, c, loss, t->metrics, result));
done:
  return err;
}

static ts_err step(ts_trainer *t, ts_loader *loader, int stop,
                   ts_step_result *result) {
  ts_err err = TS_OK;
  ts_cargo *c = ts_cargo_at(t, 0);
  TS_TRY(fill(t, loader, stop));
  TS_TRY(ts_stage_check(t, c));
  *result = (ts_step_result){.end = c->verdict.end, .stop = c->verdict.stop};
  if (result->end) return TS_OK;
  TS_TRY(train(t, loader, stop, result));
  ts_stage_advance(t, loader);
done:
  return err;
}

extern const ts_pipeline_ops ts_pipeline_prefetch;
const ts_pipeline_ops ts_pipeline_prefetch = {
    .name = "prefetch", .n_cargo = 3, .has_ahead = true, .step = step};
