/* run.c - the loop of a training run. */
#include "train/run.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/log.h"
#include "base/mem.h"
#include "runtime/trace.h"
#include "train/planning.h"
#include "train/report.h"
#include "train/run_impl.h"
#include "train/signals.h"

/* ---- saving, evaluating -------------------------------------------------- */

static ts_err save(ts_run *r) {
  ts_err err = TS_OK;
  if (!r->config->checkpoint.dir || r->saved_step == r->t->step) return TS_OK;
  const double t0 = ts_now();
  if (r->t->pipeline->fence) TS_TRY(r->t->pipeline->fence(r->t));
  TS_TRY(ts_trainer_save(r->t, &r->state, r->train));
  r->saved_step = r->t->step;
  ts_timer_add("checkpoint", ts_now() - t0);
  ts_info("checkpoint of step %lld written in %.2f s", (long long)r->t->step,
          ts_now() - t0);
done:
  return err;
}

static ts_err log_eval(ts_run *r, const ts_metrics_result *m) {
  ts_err err = TS_OK;
  static const char *const names[] = {"ne",       "auc",         "logloss",
                                      "accuracy", "calibration", "samples"};
  for (int32_t k = 0; k < r->t->n_tasks; k++) {
    const double v[] = {m[k].ne,       m[k].auc,         m[k].logloss,
                        m[k].accuracy, m[k].calibration, m[k].n_samples};
    const char *task = r->config->model.tasks[k].name;
    ts_report_eval(r->t->n_tasks > 1 ? task : "evaluation", &m[k]);
    if (r->t->rank == 0)
      TS_TRY(ts_metrics_log_line(r->log, r->t->step, 1,
                                 r->t->n_tasks > 1 ? task : NULL, 6, names, v));
  }
done:
  return err;
}

static ts_err evaluate(ts_run *r) {
  ts_err err = TS_OK;
  ts_metrics_result m[r->t->n_tasks];
  if (!r->eval) return TS_OK;
  const ts_ebc_stat trained = ts_ebc_stat_of(r->t->ebc);
  TS_TRY(ts_cache_report_pause(&r->cache, r->t));
  TS_TRY(ts_evaluate(r->t, r->eval, m, NULL, NULL));
  TS_TRY(ts_cache_report_go_on(&r->cache, r->t));
  ts_ebc_stat_put(r->t->ebc, &trained);
  TS_TRY(ts_settle(r->t, log_eval(r, m)));
  if (isfinite(r->eval->info.bayes_auc))
    ts_info("the planted truth allows%s: AUC %.5f  log loss %.5f",
            r->eval->info.n_tasks > 1 ? " (first task)" : "",
            r->eval->info.bayes_auc, r->eval->info.bayes_logloss);
done:
  return err;
}

/* ---- the loop ------------------------------------------------------------ */

/* A line of the log says the AUC of the window's newest samples: as many as
 * cost little beside the steps between two lines. */
enum { AUC_SAMPLES = 1 << 18 };

static ts_err log_step(ts_run *r) {
  ts_err err = TS_OK;
  static const char *const names[] = {"loss",      "samples",      "ne",
                                      "window_ne", "window_auc",   "lr_factor",
                                      "epoch",     "samples_per_s"};
  ts_trainer *t = r->t;
  const double began = ts_now();
  double loss = r->last.loss_sum;
  ts_metrics_result m;
  TS_TRY(ts_comm_sum_f64(t->control, &loss, 1));
  if (r->last.weight_sum > 0) loss /= r->last.weight_sum;
  TS_TRY(ts_metrics_compute(t->metrics[0], &m, AUC_SAMPLES, t->control));
  const double now = ts_now(), dt = now - r->t_log;
  const double rate = dt > 0 ? (double)(r->n_samples - r->n_log) / dt : 0;
  const double all = (now - r->t0) / (double)(r->n_samples + 1);
  const double left =
      (double)((r->last_step - t->step) * t->global_batch) * all;
  ts_report_progress(t->step, r->last_step, loss, &m, rate, left);
  const double v[] = {loss,
                      (double)r->state.n_samples,
                      m.ne,
                      m.window_ne,
                      r->config->metrics.window > 0 ? m.auc : NAN,
                      ts_schedule_factor(r->config, t->step),
                      (double)r->state.loader.epoch,
                      rate};
  if (t->rank == 0)
    TS_TRY(ts_metrics_log_line(r->log, t->step, 0, NULL, 8, names, v));
  TS_TRY(ts_cache_report_step(&r->cache, t, r->log));
  r->t_log = ts_now();
  ts_timer_add("progress lines", r->t_log - began);
  r->n_log = r->n_samples;
done:
  return err;
}

/* What this rank asks for before a step. */
static int asks(const ts_run *r) {
  const double limit = r->config->run.max_time_s;
  const double used = ts_now() - r->t0;
  /* Room for the step and the checkpoint: a twentieth, at least 5 s. */
  const double spare = fmax(5.0, limit / 20);
  if (ts_signals_level()) return 1;
  return limit > 0 && r->t->rank == 0 && used > limit - fmin(spare, limit / 2);
}

/* A loss that is not a number somewhere: agreed now, before anything is
 * saved over what was good. */
static ts_err check_nan(ts_run *r) {
  ts_err err = TS_OK;
  if (r->config->run.on_nan != TS_ON_NAN_STOP) return TS_OK;
  if (r->last.nan)
    err = ts_fail(TS_ERR_NAN,
                  "step %lld: the loss is not a number; a smaller rate, "
                  "optimizer.clip_norm or run.on_nan = \"skip\" may help; "
                  "the last checkpoint is from before",
                  (long long)r->t->step);
  return ts_agree(r->t->control, err);
}

/* Back to the newest checkpoint's weights; the data goes on. */
static ts_err roll_back(ts_run *r) {
  ts_err err = TS_OK;
  ts_run_state old = {0};
  ts_str taken = {0};
  const int64_t n_samples = r->state.n_samples;
  if (r->saved_step < 0)
    TS_THROW(TS_ERR_NAN,
             "step %lld: the loss is not a number, and there is "
             "no checkpoint to go back to",
             (long long)r->t->step + 1);
  if (r->t->pipeline->fence) TS_TRY(r->t->pipeline->fence(r->t));
  TS_TRY(ts_trainer_load(r->t, NULL, &old, &taken));
  ts_note("the loss was not a number: weights are back at step %lld",
          (long long)r->t->step);
  r->state.n_samples = n_samples;
done:
  ts_mem_free(old.source_state);
  ts_str_reset(&taken);
  return err;
}

static ts_err after_step(ts_run *r) {
  ts_err err = TS_OK;
  const ts_config *c = r->config;
  const int64_t step = r->t->step;
  const bool log = step % c->run.log_every == 0 || step == r->last_step;
  const bool every = c->checkpoint.every > 0 && step % c->checkpoint.every == 0;
  const bool eval = c->run.eval_every > 0 && step % c->run.eval_every == 0;
  if (log || every || eval || r->last.stop) TS_TRY(check_nan(r));
  if (log) TS_TRY(ts_settle(r->t, log_step(r)));
  if (eval && step < r->last_step) TS_TRY(evaluate(r));
  if (every) TS_TRY(save(r));
done:
  return err;
}

/* What tests want to see the others do about. */
static void meet_faults(void) {
  if (ts_fault("crash")) raise(SIGSEGV);
  if (ts_fault("pause"))
    for (;;) pause();
  if (ts_fault("leave")) {
    ts_watch_stop();
    ts_mpi_stop();
    exit(0);
  }
}

static ts_err one_step(ts_run *r, bool *end) {
  ts_err err = TS_OK;
  r->last = (ts_step_result){0};
  ts_run_trace_step(r->state.loader.step);
  ts_watch_step(r->t->step + 1);
  meet_faults();
  err = ts_pipeline_step(r->t, r->loader, asks(r), &r->last);
  if (err != TS_OK && !ts_err_agreed()) ts_watch_fail(err);
  TS_TRY(err);
  *end = r->last.end;
  if (*end) goto done;
  r->state.loader = r->last.after;
  if (r->last.skipped) {
    r->n_skipped++;
    if (r->n_skipped > 1000)
      TS_THROW(TS_ERR_NAN, "1000 steps were skipped: no loss is a number");
    if (r->config->run.on_nan == TS_ON_NAN_ROLLBACK) TS_TRY(roll_back(r));
    goto done;
  }
  r->t->step++;
  r->n_samples += r->last.n_global;
  r->state.n_samples += r->last.n_global;
  TS_TRY(after_step(r));
done:
  return err;
}

static ts_err loop(ts_run *r) {
  ts_err err = TS_OK;
  bool end = false;
  r->first_step = r->t->step;
  r->t0 = r->t_log = ts_now();
  ts_timers_reset();
  TS_TRY(ts_cache_report_create(&r->cache, r->t));
  ts_watch_enter(TS_SECTION_STEP);
  while (!end && r->t->step < r->last_step) {
    TS_TRY(one_step(r, &end));
    if (!r->last.stop || r->t->step >= r->last_step) continue;
    TS_TRY(save(r));
    ts_info("stopped at step %lld of %lld; the same command goes on from "
            "there",
            (long long)r->t->step, (long long)r->last_step);
    TS_THROW(TS_ERR_STOPPED, "stopped at step %lld", (long long)r->t->step);
  }
  TS_TRY(check_nan(r));
  TS_TRY(save(r));
  TS_TRY(evaluate(r));
done:
  return err;
}

/* What the reader met, over all ranks. */
static ts_err report_data(ts_run *r) {
  ts_err err = TS_OK;
  int64_t n[4] = {r->train->n_short, r->train->n_bad_records,
                  r->train->n_bad_ids, r->n_skipped};
  TS_TRY(ts_comm_sum_i64(r->t->control, n, 3));
  if (n[0])
    ts_note("%lld records ended early; what was missing was read as missing",
            (long long)n[0]);
  if (n[1]) ts_note("%lld bad records were skipped", (long long)n[1]);
  if (n[2]) ts_note("%lld bad ids were dropped", (long long)n[2]);
  if (n[3])
    ts_note("%lld steps were left out: their loss was not a number",
            (long long)n[3]);
done:
  return err;
}

static ts_err set_up(ts_run *r, const ts_run_options *o) {
  ts_err err = TS_OK;
  const bool check = o->check;
  TS_TRY(ts_trainer_start(&r->t, r->config, true));
  TS_TRY(ts_agree(r->t->control,
                  r->t->rank == 0 && !check ? ts_run_open_output(r) : TS_OK));
  TS_TRY(ts_report_header(r->t));
  TS_TRY(ts_run_build(r));
  ts_report_plan(r->t);
  if (check) goto done;
  TS_TRY(ts_run_start_weights(r));
  TS_TRY(ts_run_open_data(r));
  TS_TRY(ts_settle(r->t, ts_run_open_loader(r)));
  TS_TRY(ts_report_in_flight(r->t));
  TS_TRY(ts_agree(r->t->control, ts_run_open_logs(r)));
  TS_TRY(ts_run_trace_open(&r->trace, r->config, &o->trace,
                           r->state.loader.step, r->t->control));
done:
  return err;
}

static void tear_down(ts_run *r) {
  /* What lanes and comms still have under way reads batches. */
  if (r->loader) ts_pipeline_drain(r->t, r->loader);
  ts_loader_destroy(r->loader);
  ts_source_close(r->train);
  ts_source_close(r->eval);
  ts_metrics_log_close(r->log);
  ts_cache_report_reset(&r->cache);
  ts_mem_free(r->state.source_state);
  ts_trainer_destroy(r->t);
  if (r->lock >= 0) close(r->lock);
  if (r->checkpoints_lock >= 0) close(r->checkpoints_lock);
  ts_log_close();
}

ts_err ts_run_train(const ts_config *config, const ts_run_options *o) {
  ts_err err = TS_OK;
  ts_run r = {
      .config = config, .lock = -1, .checkpoints_lock = -1, .saved_step = -1};
  TS_TRY(ts_signals_start());
  TS_TRY(set_up(&r, o));
  if (o->check) goto done;
  if (r.t->step >= r.last_step)
    ts_info("step %lld of %lld: nothing is left to train", (long long)r.t->step,
            (long long)r.last_step);
  err = loop(&r);
  ts_watch_enter(TS_SECTION_END);
  if (err != TS_OK && err != TS_ERR_STOPPED) goto done;
  ts_err reported = report_data(&r);
  if (reported == TS_OK) reported = ts_cache_report_end(&r.cache, r.t);
  if (reported == TS_OK)
    reported = ts_report_end(r.t, ts_now() - r.t0, r.n_samples,
                             r.t->step - r.first_step);
  if (reported == TS_OK) reported = ts_run_trace_close(&r.trace, r.t->control);
  if (err == TS_OK) err = reported;
done:
  ts_settle_own(err);
  if (r.trace.path) ts_trace_file_reset(&r.trace);
  tear_down(&r);
  ts_signals_stop();
  return err;
}
