/* run_eval.c - a run looks at other data than it trains on: evaluations of
 * data.eval, which are told, and validations of data.valid, by which it keeps
 * its best step, slows down and ends. */
#include <math.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "train/report.h"
#include "train/run_impl.h"
#include "train/state_dense.h"

static ts_err log_look(ts_run *r, const ts_look *look,
                       const ts_metrics_result *m) {
  for (int32_t k = 0; k < r->t->n_tasks; k++)
    TS_DO(ts_report_eval(r->t, look, k, &m[k], r->log));
  return TS_OK;
}

/* One pass over SOURCE.  Where a stop is asked for it is broken off, or not
 * begun, and r->last.stop says so: the same line begins it again. */
static ts_err look(ts_run *r, ts_source *source, const ts_look *what,
                   ts_metrics_result *m) {
  const ts_eval_hooks hooks = {.asks = ts_run_wants_stop, .asks_arg = r};
  bool stopped = r->last.stop == 1;
  if (!stopped) {
    const ts_ebc_stat trained = ts_ebc_stat_of(r->t->ebc);
    TS_DO(ts_slow_report_pause(&r->cache, r->t));
    TS_DO(ts_evaluate(r->t, source, m, &hooks, &stopped));
    TS_DO(ts_slow_report_go_on(&r->cache, r->t));
    ts_ebc_stat_put(r->t->ebc, &trained);
  }
  if (!stopped) return TS_OK;
  ts_info("the %s at step %lld waits for the next start: a stop was asked for",
          what->name, (long long)r->t->step);
  r->last.stop = 1;
  return TS_OK;
}

ts_err ts_run_evaluate(ts_run *r) {
  ts_metrics_result m[r->t->n_tasks];
  if (!r->eval) return TS_OK;
  TS_DO(look(r, r->eval, &ts_is_evaluation, m));
  if (r->last.stop == 1) return TS_OK;
  TS_DO(ts_settle(r->t, log_look(r, &ts_is_evaluation, m)));
  if (isfinite(r->eval->info.bayes_auc))
    ts_info("the planted truth allows%s: AUC %.5f  log loss %.5f",
            r->eval->info.n_tasks > 1 ? " (first task)" : "",
            r->eval->info.bayes_auc, r->eval->info.bayes_logloss);
  return TS_OK;
}

/* ---- validations --------------------------------------------------------- */

/* Task of run.stop.task. */
static int32_t stop_task(const ts_config *c) {
  for (int32_t k = 0; k < c->model.n_tasks; k++)
    if (!strcmp(c->model.tasks[k].name, c->run.stop.task)) return k;
  return 0;
}

static void say_best(const ts_run *r, bool better, double rate) {
  const ts_best *b = &r->state.best;
  const char *name = r->config->run.stop.metric;
  if (better)
    ts_info("validation: %s %.6f is the best so far", name, b->value);
  else
    ts_info("validation: the best %s was %.6f at step %lld, %lld validations "
            "ago",
            name, b->value, (long long)b->step, (long long)b->n_since);
  if (ts_best_rate(b) < rate)
    ts_info("validation: no better one: the rates fall to %g of the deck's",
            ts_best_rate(b));
}

static ts_err keep_best(ts_run *r) {
  if (!ts_best_is_kept(r->config)) return TS_OK;
  TS_DO(ts_run_save(r, 0));
  return ts_saves_best(&r->saves);
}

static ts_err validate(ts_run *r) {
  ts_metrics_result m[r->t->n_tasks];
  ts_best *b = &r->state.best;
  const double rate = ts_best_rate(b);
  TS_DO(look(r, r->valid, &ts_is_validation, m));
  if (r->last.stop == 1) return TS_OK;
  const bool better =
      ts_best_take(b, r->config, r->t->step,
                   ts_best_metric(r->config, &m[stop_task(r->config)]));
  TS_DO(ts_settle(r->t, log_look(r, &ts_is_validation, m)));
  say_best(r, better, rate);
  ts_parallel_slow(r->t->dense, ts_best_rate(b));
  return better ? keep_best(r) : TS_OK;
}

bool ts_run_has_best(const ts_run *r) {
  return ts_best_stops(&r->state.best, r->config);
}

ts_err ts_run_restore_best(ts_run *r) {
  ts_err err = TS_OK;
  ts_best *b = &r->state.best;
  const int64_t step = r->t->step;
  ts_run_state old = {0};
  ts_str path = {0}, taken = {0};
  if (!ts_best_is_restored(r->config) || !b->step || b->step == step ||
      b->restored == step)
    return TS_OK;
  TS_TRY(ts_saves_finish(&r->saves, r->log));
  TS_TRY(ts_pipeline_forget(r->t));
  TS_TRY(ts_settle(
      r->t, ts_str_append(&path, "%s/best.h5", r->config->checkpoint.dir)));
  TS_TRY(ts_trainer_load(r->t, path.text, &old, &taken));
  TS_TRY(ts_settle(r->t, ts_state_move_means(r->t, step - r->t->step)));
  r->t->step = b->restored = step;
  r->saved_step = -1; /* that of these weights is yet to be written */
  ts_info("the weights are those of step %lld, the best validation: %s %.6f",
          (long long)b->step, r->config->run.stop.metric, b->value);
done:
  ts_mem_free(old.source_state);
  ts_str_reset(&path);
  ts_str_reset(&taken);
  return err;
}

/* ---- when ---------------------------------------------------------------- */

static bool is_multiple(const ts_run *r, int64_t every) {
  return every > 0 && r->t->step > 0 && r->t->step % every == 0;
}

/* The last step's comes with the end of the run. */
bool ts_run_is_eval_step(const ts_run *r) {
  return is_multiple(r, r->config->run.eval_every) && r->t->step < r->last_step;
}

bool ts_run_is_valid_step(const ts_run *r) {
  return r->valid && r->state.best.at != r->t->step &&
         is_multiple(r, r->config->run.valid_every);
}

ts_err ts_run_look(ts_run *r) {
  if (ts_run_is_valid_step(r)) TS_DO(validate(r));
  if (ts_run_is_eval_step(r)) TS_DO(ts_run_evaluate(r));
  return TS_OK;
}

/* Resumed from a checkpoint before whose evaluation, or in it, the run ended:
 * metrics.jsonl knows; of validations the checkpoint does. */
ts_err ts_run_look_missed(ts_run *r) {
  int64_t n = ts_metrics_log_evaluations(r->log);
  ts_parallel_slow(r->t->dense, ts_best_rate(&r->state.best));
  if (ts_run_is_valid_step(r)) TS_DO(validate(r));
  if (!ts_run_is_eval_step(r)) return TS_OK;
  TS_DO(ts_comm_sum_i64(r->t->control, &n, 1));
  if (n < r->t->n_tasks) TS_DO(ts_run_evaluate(r));
  return TS_OK;
}
