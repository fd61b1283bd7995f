/* pipeline.c - the table of pipelines, those of base/kinds.h, and what a step
 * is in all of them. */
#include "train/pipeline.h"

#include <string.h>

#include "base/kinds.h"

#define DECLARE(name) extern const ts_pipeline_ops ts_pipeline_##name;
TS_PIPELINES(DECLARE)

#define ENTRY(name) &ts_pipeline_##name,
static const ts_pipeline_ops *const table[] = {TS_PIPELINES(ENTRY)};

const ts_pipeline_ops *ts_pipeline_find(const char *name) {
  for (size_t i = 0; i < sizeof table / sizeof *table; i++)
    if (!strcmp(table[i]->name, name)) return table[i];
  return NULL;
}

const ts_pipeline_ops *ts_pipeline_at(int i) {
  return i < (int)(sizeof table / sizeof *table) ? table[i] : NULL;
}

int ts_pipeline_depth(const ts_config *c) {
  int depth = 1;
  for (int32_t i = 0; i < c->n_tables; i++)
    if (ts_table_is_slow(&c->tables[i]) && c->tables[i].cache.depth > depth)
      depth = c->tables[i].cache.depth;
  return depth;
}

int ts_pipeline_n_inflight(const ts_config *c, bool discrete) {
  const ts_pipeline_ops *p = ts_pipeline_find(c->pipeline.kind);
  if (!p) return 1;
  return p->n_inflight + (discrete ? p->n_behind : 0) +
         (p->has_depth ? ts_pipeline_depth(c) - 1 : 0);
}

bool ts_pipeline_has(ts_trainer *t, int ahead) {
  const ts_inflight *c = ts_inflight_at(t, ahead);
  return c->judged && c->read == TS_OK && !c->verdict.end;
}

/* The first batches: nothing to hide them under. */
static ts_err fill(ts_trainer *t, ts_loader *loader, int stop) {
  for (int k = 0; k < t->n_filled; k++) {
    ts_inflight *c = ts_inflight_at(t, k);
    if (!c->judged) {
      ts_stage_load(t, c, loader);
      TS_DO(ts_stage_input_begin(t, c, stop));
      TS_DO(ts_stage_input_end(t, c));
    }
    if (!ts_pipeline_has(t, k)) break;
  }
  return TS_OK;
}

ts_err ts_pipeline_receive(ts_trainer *t, int ahead, ts_step_result *result) {
  ts_inflight *c = ts_inflight_at(t, ahead);
  TS_DO(ts_stage_input_end(t, c));
  if (c->verdict.stop > result->stop) result->stop = c->verdict.stop;
  return TS_OK;
}

/* Batch 0, a whole step's or one micro-batch; result->skipped comes from
 * those before it. */
static ts_err train_one(ts_trainer *t, ts_loader *loader, int stop,
                        ts_step_result *result) {
  TS_DO(fill(t, loader, stop));
  const ts_inflight *c = ts_inflight_at(t, 0);
  TS_DO(ts_stage_check(t, ts_inflight_at(t, 0)));
  result->end = c->verdict.end;
  result->stop = c->verdict.stop;
  result->more = c->more;
  for (int k = 1; k < t->n_filled; k++) {
    const ts_inflight *next = ts_inflight_at(t, k);
    if (next->verdict.stop > result->stop) result->stop = next->verdict.stop;
  }
  if (result->end) return TS_OK;
  TS_DO(t->pipeline->train(t, loader, stop, result));
  ts_stage_advance(t, loader);
  return TS_OK;
}

/* Figures of the step so far. */
static void add_result(ts_step_result *sum, const ts_step_result *one) {
  ts_step_result r = *one;
  r.nan |= sum->nan;
  r.n_global += sum->n_global;
  r.loss_sum += sum->loss_sum;
  if (sum->stop > r.stop) r.stop = sum->stop;
  *sum = r;
}

ts_err ts_pipeline_step(ts_trainer *t, ts_loader *loader, int stop,
                        ts_step_result *result) {
  *result = (ts_step_result){0};
  do {
    ts_step_result one = {.skipped = result->skipped};
    TS_DO(train_one(t, loader, stop, &one));
    add_result(result, &one);
  } while (result->more && !result->end);
  if (result->skipped)
    ts_stage_drop(t);
  else if (!result->end && t->config->run.on_nan != TS_ON_NAN_STOP)
    TS_DO(ts_stage_judge_step(t, result));
  return TS_OK;
}

ts_err ts_pipeline_forget(ts_trainer *t) {
  for (int k = 0; k < t->n_inflight; k++) {
    ts_inflight *c = ts_inflight_at(t, k);
    if (!c->looked_up) continue;
    TS_DO(ts_lane_wait(t->compute, c->ready));
    TS_DO(ts_ebc_output_end(c->ebc_batch, t->compute));
    c->looked_up = false;
  }
  return ts_lane_sync(t->compute);
}

void ts_pipeline_drain(ts_trainer *t, ts_loader *loader) {
  for (int k = 0; k < t->n_inflight; k++)
    ts_stage_discard(t, ts_inflight_at(t, k), loader);
  if (t->cut) ts_loader_release(loader, t->cut);
  t->cut = NULL;
}
