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
  ts_cargo_trace(c, "prefetch");
  TS_TRY(ts_ebc_prefetch(c->flight, t->ahead));
  c->ready = ts_lane_record(t->ahead);
done:
  return err;
}

static ts_err train(ts_trainer *t, ts_loader *loader, int stop,
                    ts_step_result *result) {
  ts_err err = TS_OK;
  ts_cargo *c = ts_cargo_at(t, 0), *next = ts_cargo_at(t, 1);
  ts_cargo *third = ts_cargo_at(t, 2);
  const bool more = ts_pipeline_has(t, 1);
  ts_event loss;
  if (!c->ready.lane) TS_TRY(fill_cache(t, c)); /* the first batch */
  TS_TRY(ts_stage_wait_rows(t, c->ready));
  TS_TRY(ts_stage_forward(t, c, true, &loss));
  TS_TRY(ts_stage_judge_loss(t, loss, &result->skipped));
  if (more) {
    TS_TRY(fill_cache(t, next));
    TS_TRY(ts_lane_wait(t->data, next->ready));
    ts_stage_load(t, third, loader);
    TS_TRY(ts_stage_input_begin(t, third, stop));
  }
  if (!result->skipped) {
    TS_TRY(ts_stage_backward(t, c, t->step + 1, NULL, next->ready));
    TS_TRY(ts_stage_optimize(t));
  } else { /* nothing is released while rows are fetched */
    TS_TRY(ts_lane_wait(t->compute, next->ready));
  }
  if (more) TS_TRY(ts_pipeline_receive(t, 2, result));
  TS_TRY(ts_stage_finish(t, c, loss, t->metrics, result));
done:
  return err;
}

extern const ts_pipeline_ops ts_pipeline_prefetch;
const ts_pipeline_ops ts_pipeline_prefetch = {.name = "prefetch",
                                              .n_cargo = 3,
                                              .n_filled = 2,
                                              .has_ahead = true,
                                              .train = train};
