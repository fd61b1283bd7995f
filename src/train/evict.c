/* evict.c - between two steps, ids of dynamic tables lose their rows; batches
 * that were sent ahead get theirs anew. */
#include "base/log.h"
#include "base/mem.h"
#include "train/pipeline.h"
#include "train/run_impl.h"

uint32_t ts_trainer_first_learnt(ts_trainer *t) {
  for (int k = 0; k < t->n_inflight; k++)
    if (ts_pipeline_has(t, k)) {
      const uint32_t n = ts_ebc_batch_learnt(ts_inflight_at(t, k)->ebc_batch);
      if (n) return n;
    }
  return 0;
}

/* A batch's lines are given back, and are fetched anew by the step. */
ts_err ts_trainer_let_go(ts_trainer *t) {
  TS_DO(ts_pipeline_forget(t));
  for (int k = 0; k < t->n_inflight; k++) {
    ts_inflight *c = ts_inflight_at(t, k);
    if (!ts_pipeline_has(t, k)) continue;
    TS_DO(ts_ebc_release(c->ebc_batch, t->compute));
    c->ready = (ts_event){0};
  }
  return ts_lane_sync(t->compute);
}

ts_err ts_trainer_place_again(ts_trainer *t) {
  ts_err err = TS_OK;
  for (int k = 0; err == TS_OK && k < t->n_inflight; k++)
    if (ts_pipeline_has(t, k))
      err = ts_ebc_place_again(ts_inflight_at(t, k)->ebc_batch, t->data);
  if (err == TS_OK) err = ts_lane_sync(t->data);
  return ts_settle(t, err);
}

static bool is_time(const ts_config *c, int64_t step) {
  for (int32_t i = 0; i < c->n_tables; i++)
    if (ts_table_looks_at(&c->tables[i], step)) return true;
  return false;
}

/* A line of table I: N values of those NAMES. */
static ts_err say_line(const ts_run *r, int32_t i, const char *event, int n,
                       const char *const *names, const double *values) {
  const ts_metrics_line line = {.step = r->t->step,
                                .event = event,
                                .table = r->config->tables[i].name,
                                .n = n,
                                .names = names,
                                .values = values};
  return r->t->rank == 0 ? ts_metrics_log_line(r->log, &line) : TS_OK;
}

static ts_err say(const ts_run *r, const ts_evicted *out) {
  static const char *const names[] = {"ids", "evicted"};
  for (int32_t i = 0; i < r->config->n_tables; i++) {
    const double v[] = {(double)out[i].n_ids, (double)out[i].n_evicted};
    if (out[i].n_ids >= 0) TS_DO(say_line(r, i, "evict", 2, names, v));
  }
  return TS_OK;
}

static ts_err say_figures(const ts_run *r, const ts_ids_figures *out) {
  static const char *const names[] = {"ids", "admitted", "load", "probes",
                                      "probes_p99"};
  for (int32_t i = 0; i < r->config->n_tables; i++) {
    const double v[] = {(double)out[i].n_ids, (double)out[i].n_new, out[i].load,
                        out[i].probes, out[i].probes_p99};
    if (out[i].n_ids >= 0) TS_DO(say_line(r, i, "index", 5, names, v));
  }
  return TS_OK;
}

ts_err ts_run_say_ids(ts_run *r) {
  ts_err err = TS_OK;
  ts_trainer *t = r->t;
  ts_ids_figures *out = NULL;
  bool any = false;
  for (int32_t i = 0; i < r->config->n_tables; i++)
    any |= ts_table_is_dynamic(&r->config->tables[i]);
  if (!any) return TS_OK;
  TS_TRY(ts_settle(t, ts_trainer_rest(t)));
  TS_TRY(ts_agree(t->control, ts_mem_many(out, r->config->n_tables, MISC)));
  const uint32_t ahead = ts_trainer_first_learnt(t);
  TS_TRY(ts_ebc_ids_figures(t->ebc, r->said, ahead, t->control, out));
  r->said = ahead ? ahead - 1 : ts_ebc_n_learnt(t->ebc);
  TS_TRY(ts_settle(t, say_figures(r, out)));
done:
  ts_mem_free(out);
  return err;
}

ts_err ts_run_evict(ts_run *r) {
  ts_err err = TS_OK;
  ts_trainer *t = r->t;
  ts_evicted *out = NULL;
  if (!is_time(r->config, t->step)) return TS_OK;
  TS_TRY(ts_settle(t, ts_trainer_rest(t)));
  if (t->pipeline->fence) TS_TRY(ts_settle(t, t->pipeline->fence(t)));
  TS_TRY(ts_settle(t, ts_trainer_let_go(t)));
  TS_TRY(ts_agree(t->control, ts_mem_many(out, r->config->n_tables, MISC)));
  if (ts_trainer_first_learnt(t))
    TS_TRY(
        ts_settle(t, ts_ebc_forget_from(t->ebc, ts_trainer_first_learnt(t))));
  TS_TRY(ts_ebc_evict(t->ebc, t->step, t->control, out));
  TS_TRY(ts_trainer_place_again(t));
  TS_TRY(ts_settle(t, say(r, out)));
done:
  ts_mem_free(out);
  return err;
}

ts_err ts_run_forget_step(ts_run *r) {
  ts_trainer *t = r->t;
  bool any = false;
  for (int32_t i = 0; i < r->config->n_tables; i++)
    any |= ts_table_is_dynamic(&r->config->tables[i]);
  if (!any) return TS_OK;
  TS_DO(ts_settle(t, ts_trainer_rest(t)));
  if (t->pipeline->fence) TS_DO(ts_settle(t, t->pipeline->fence(t)));
  TS_DO(ts_settle(t, ts_trainer_let_go(t)));
  const uint32_t ahead = ts_trainer_first_learnt(t);
  const uint32_t next = ahead ? ahead : ts_ebc_n_learnt(t->ebc) + 1;
  const uint32_t parts = (uint32_t)r->config->run.accumulate;
  TS_DO(ts_settle(t, ts_ebc_forget_from(t->ebc, next - parts)));
  return ts_trainer_place_again(t);
}
