/* run.c - the loop of a training run. */
#include "train/run.h"

#include <math.h>
#include <string.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/tasks.h"
#include "runtime/trace.h"
#include "train/planning.h"
#include "train/recompute.h"
#include "train/report.h"
#include "train/rows.h"
#include "train/run_impl.h"
#include "train/signals.h"

/* ---- saving -------------------------------------------------- */

ts_err ts_run_save(ts_run *r, int how) {
  const bool delta = how & TS_SAVE_DELTA;
  if (!r->config->checkpoint.dir) return TS_OK;
  if (r->saved_step != r->t->step || (r->saved_delta && !delta)) {
    bool full;
    if (r->t->pipeline->fence) TS_DO(r->t->pipeline->fence(r->t));
    TS_DO(ts_run_check_saved(r));
    TS_DO(ts_run_say_ids(r));
    TS_DO(ts_saves_save(&r->saves, &r->state, r->train, how, &full, r->log));
    r->saved_step = r->t->step;
    r->saved_delta = !full;
  }
  if (how & TS_SAVE_WAIT) TS_DO(ts_saves_finish(&r->saves, r->log));
  return TS_OK;
}

ts_err ts_run_loaded(ts_run *r, const char *path, bool lacks) {
  TS_DO(ts_saves_loaded(&r->saves, path, lacks));
  /* A delta was loaded, or a file of the mirror: a full one of this step is
   * still to be written where one is asked for. */
  r->saved_delta = path && r->saves.written < 0;
  return TS_OK;
}

bool ts_run_wants_stop(const void *run) {
  const ts_run *r = run;
  const double limit = r->config->run.max_time_s;
  const double used = ts_now() - r->began;
  /* Room for the step and the checkpoint: a twentieth, at least 5 s. */
  const double spare = fmax(5.0, limit / 20);
  if (ts_signals_level()) return true;
  return limit > 0 && r->t->rank == 0 && used > limit - fmin(spare, limit / 2);
}

/* ---- the loop ------------------------------------------------------------ */

/* Counts of what is rare are written where there is some. */
static double some(double count) {
  return count > 0 ? count : NAN;
}

static ts_err log_step(ts_run *r) {
  static const char *const names[] = {
      "loss",       "samples",     "ne",     "window_ne",
      "window_auc", "lr_factor",   "epoch",  "samples_per_s",
      "skipped",    "bad_records", "bad_ids"};
  ts_trainer *t = r->t;
  const double began = ts_now();
  double sums[] = {r->last.loss_sum, (double)r->n_bad, (double)r->n_bad_ids};
  ts_metrics_result m;
  TS_DO(ts_comm_sum_f64(t->control, sums, 3));
  double loss = sums[0];
  if (r->last.weight_sum > 0) loss /= r->last.weight_sum;
  TS_DO(ts_metrics_compute(t->metrics[0], &m, t->control));
  const double now = ts_now(), dt = now - r->t_log;
  const double rate = dt > 0 ? (double)(r->n_samples - r->n_log) / dt : 0;
  const double all = (now - r->t0) / (double)(r->n_samples + 1);
  const double left =
      (double)((r->last_step - t->step) * t->global_batch) * all;
  const ts_progress_line line = {.step = t->step,
                                 .last = r->last_step,
                                 .epoch = (double)r->state.n_samples /
                                          (double)r->train->info.n_samples,
                                 .loss = loss,
                                 .samples_per_s = rate,
                                 .gone_s = now - r->t0,
                                 .left_s = left};
  const bool binary = ts_task_is_binary(&r->config->model.tasks[0]);
  ts_report_progress(&line, binary ? &m : NULL);
  const double v[] = {loss,
                      (double)r->state.n_samples,
                      binary ? m.ne : NAN,
                      binary ? m.window_ne : NAN,
                      binary && r->config->metrics.window > 0 ? m.auc : NAN,
                      ts_parallel_rate(t->dense, t->step),
                      (double)r->state.loader.epoch,
                      rate,
                      some(r->n_skipped),
                      some(sums[1]),
                      some(sums[2])};
  const int n = sizeof v / sizeof *v;
  if (t->rank == 0)
    TS_DO(ts_metrics_log_line(
        r->log, &(ts_metrics_line){
                    .step = t->step, .n = n, .names = names, .values = v}));
  TS_DO(ts_saves_line(&r->saves, r->log));
  TS_DO(ts_slow_report_step(&r->cache, t, r->log));
  r->t_log = ts_now();
  ts_timer_add("progress lines", r->t_log - began);
  r->n_log = r->n_samples;
  return TS_OK;
}

/* This rank's request before a step: 1, a stop; 2, that all ranks look at a
 * checkpoint that could not be written. */
static int asks(const ts_run *r) {
  if (ts_saves_failed(&r->saves)) return 2;
  return ts_run_wants_stop(r);
}

/* Before there is no more room for sums of steps. */
static ts_err gather_metrics(ts_trainer *t) {
  for (int32_t k = 0; k < t->n_tasks; k++)
    if (ts_metrics_is_full(t->metrics[k]))
      TS_DO(ts_settle(t, ts_metrics_gather(t->metrics[k], t->control)));
  return TS_OK;
}

static ts_err after_step(ts_run *r) {
  const ts_config *c = r->config;
  const int64_t step = r->t->step;
  const bool log = step % c->run.log_every == 0 || step == r->last_step;
  const bool every = c->checkpoint.every > 0 && step % c->checkpoint.every == 0;
  const bool delta =
      c->checkpoint.delta_every > 0 && step % c->checkpoint.delta_every == 0;
  const bool looks = ts_run_is_eval_step(r) || ts_run_is_valid_step(r);
  if (log || every || delta || looks || r->last.stop) {
    if (r->t->late) TS_DO(ts_settle(r->t, ts_stage_fetch(r->t, &r->last)));
    TS_DO(ts_run_check_nan(r));
  }
  TS_DO(gather_metrics(r->t));
  TS_DO(ts_run_evict(r));
  if (log) TS_DO(ts_settle(r->t, log_step(r)));
  /* The save comes first: who is killed in a long evaluation loses nothing. */
  if ((every || delta) && step < r->last_step)
    TS_DO(ts_run_save(r, every ? 0 : TS_SAVE_DELTA));
  return ts_run_look(r);
}

/* Faults for tests, which watch what the other ranks do about them. */
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
  bool back;
  r->last = (ts_step_result){0};
  ts_run_trace_step(r->state.loader.step);
  ts_watch_step(r->t->step + 1);
  meet_faults();
  ts_recompute_begin(r->t);
  const ts_err err = ts_pipeline_step(r->t, r->loader, asks(r), &r->last);
  if (!ts_err_agreed()) ts_settle_own(err);
  TS_DO(err);
  *end = r->last.end;
  if (*end) return TS_OK;
  r->state.loader = r->last.after;
  r->n_bad += r->last.n_bad;
  r->n_bad_ids += r->last.n_bad_ids;
  ts_saves_look(&r->saves);
  if (r->last.skipped || r->last.broken) return ts_run_leave_out(r);
  TS_DO(ts_run_check_faults(r, &back));
  if (back) return TS_OK;
  r->t->step++;
  r->n_samples += r->last.n_global;
  r->state.n_samples += r->last.n_global;
  return after_step(r);
}

static ts_err stop_here(ts_run *r) {
  /* The same command goes on from it: weights alone would not do. */
  const int delta = r->config->checkpoint.delta_state ? TS_SAVE_DELTA : 0;
  TS_DO(ts_run_save(r, TS_SAVE_WAIT | delta));
  ts_info("stopped at step %lld of %lld; the same command goes on from there",
          (long long)r->t->step, (long long)r->last_step);
  return ts_fail(TS_ERR_STOPPED, "stopped at step %lld", (long long)r->t->step);
}

static ts_err loop(ts_run *r) {
  bool end = false;
  r->first_step = r->t->step;
  r->t0 = r->t_log = ts_now();
  ts_timers_reset();
  TS_DO(ts_slow_report_create(&r->cache, r->t));
  ts_watch_enter(TS_SECTION_STEP);
  TS_DO(ts_run_look_missed(r));
  if (r->last.stop) TS_DO(stop_here(r));
  while (!end && r->t->step < r->last_step && !ts_run_has_best(r)) {
    TS_DO(one_step(r, &end));
    if (r->last.stop > 1) TS_DO(ts_saves_finish(&r->saves, r->log));
    if (r->last.stop && r->t->step < r->last_step) TS_DO(stop_here(r));
  }
  TS_DO(ts_stage_fetch(r->t, &r->last));
  TS_DO(ts_run_check_nan(r));
  if (r->last.stop == 1 && ts_run_is_valid_step(r)) TS_DO(stop_here(r));
  /* Evaluate the weights that would be saved, also where nothing is saved. */
  if (r->t->pipeline->fence) TS_DO(r->t->pipeline->fence(r->t));
  TS_DO(ts_run_restore_best(r));
  TS_DO(ts_run_save(r, TS_SAVE_WAIT | TS_SAVE_LAST));
  TS_DO(ts_run_evaluate(r));
  if (r->eval && r->last.stop == 1) TS_DO(stop_here(r));
  return TS_OK;
}

/* Whatever all ranks end for, a checkpoint that was begun gets its name. */
static ts_err end_saves(ts_run *r, ts_err err) {
  ts_err_record why;
  if (err == TS_OK || ts_err_is_own(err)) return err;
  ts_err_take(&why);
  const ts_err late = ts_saves_finish(&r->saves, r->log);
  if (late != TS_OK)
    ts_warn("the last checkpoint could not be written: %s", ts_err_message());
  const bool own = late != TS_OK && ts_err_is_own(late);
  ts_err_clear();
  ts_err_put(&why);
  /* The others may know nothing of it, and would wait while all is closed. */
  if (own && ts_mpi_size() > 1) ts_watch_fail(err);
  return err;
}

/* Notes the records that the reader could not use, over all ranks. */
static ts_err report_data(ts_run *r) {
  int64_t n[3] = {r->train->n_short, r->n_bad, r->n_bad_ids};
  double cut, even;
  TS_DO(ts_comm_sum_i64(r->t->control, n, 3));
  if (n[0])
    ts_note("%lld records ended early; what was missing was read as missing",
            (long long)n[0]);
  if (n[1]) ts_note("%lld bad records were skipped", (long long)n[1]);
  if (n[2]) ts_note("%lld bad ids were dropped", (long long)n[2]);
  if (ts_loader_balance(r->loader, &cut, &even))
    ts_info("balance: the rank with most to do in a step had %.3f of the mean; "
            "%.3f with as many samples each",
            cut, even);
  if (r->n_skipped)
    ts_note("%lld steps were left out: their loss, gradients or parameters "
            "were not finite; for %lld of them the run went back to a "
            "checkpoint",
            (long long)r->n_skipped, (long long)r->n_back);
  if (r->n_faults)
    ts_note("%lld times run.check found a fault, and the run went back to a "
            "checkpoint",
            (long long)r->n_faults);
  return TS_OK;
}

static ts_err set_up(ts_run *r, const ts_run_options *o) {
  const bool check = o->check;
  TS_DO(ts_run_start(r));
  if (!check) TS_DO(ts_trainer_rows(r->t, &r->train));
  TS_DO(ts_agree(r->t->control,
                 r->t->rank == 0 && !check ? ts_run_open_output(r) : TS_OK));
  TS_DO(ts_report_header(r->t));
  if (check) TS_DO(ts_run_check_data(r));
  TS_DO(ts_run_build(r));
  ts_report_plan(r->t);
  if (check) TS_DO(ts_run_check_items(r));
  if (check) return ts_settle(r->t, ts_report_layers(r->t));
  TS_DO(ts_run_start_weights(r));
  TS_DO(ts_run_open_data(r));
  TS_DO(ts_run_init_from(r));
  TS_DO(ts_settle(r->t, ts_run_open_loader(r)));
  TS_DO(ts_report_in_flight(r->t));
  TS_DO(ts_agree(r->t->control, ts_run_open_logs(r)));
  TS_DO(ts_saves_create(&r->saves, r->t, &r->state, r->train));
  TS_DO(ts_run_loaded(r, r->loaded, r->state.lacks));
  return ts_run_trace_open(&r->trace, r->config, &o->trace,
                           r->state.loader.step, r->t->control);
}

/* What the run has ended for is not forgotten over work that fails after it. */
static void tear_down(ts_run *r) {
  ts_err_record why;
  ts_err_take(&why);
  /* Work that lanes and comms still have under way reads batches. */
  if (r->loader) ts_pipeline_drain(r->t, r->loader);
  ts_loader_destroy(r->loader);
  ts_saves_destroy(&r->saves);
  ts_mem_free(r->loaded);
  ts_source_close(r->train);
  ts_source_close(r->valid);
  ts_source_close(r->eval);
  ts_metrics_log_close(r->log);
  ts_slow_report_reset(&r->cache);
  ts_mem_free(r->state.source_state);
  ts_trainer_destroy(r->t);
  if (r->lock >= 0) close(r->lock);
  if (r->checkpoints_lock >= 0) close(r->checkpoints_lock);
  if (r->mirror_lock >= 0) close(r->mirror_lock);
  ts_log_close();
  ts_err_clear();
  ts_err_put(&why);
}

/* The weights as they stand become the run's first checkpoint. */
static ts_err save_first(ts_run *r) {
  const ts_config *c = r->config;
  if (!c->checkpoint.dir)
    return ts_fail(TS_ERR_USAGE,
                   "import: checkpoint.dir is \"none\", and what is imported "
                   "becomes a checkpoint");
  if (r->saved_step >= 0)
    return ts_fail(TS_ERR_USAGE,
                   "import: %s holds checkpoints of the run already: give "
                   "another run.name, or checkpoint.dir",
                   c->checkpoint.dir);
  TS_DO(ts_run_save(r, TS_SAVE_WAIT | TS_SAVE_LAST));
  ts_info("imported %s: step %lld of the run %s", c->checkpoint.init_from,
          (long long)r->t->step, c->run.name);
  return TS_OK;
}

ts_err ts_run_train(const ts_config *config, const ts_run_options *o) {
  ts_err err = TS_OK;
  ts_run r = {.config = config,
              .check = o->check,
              .began = o->began,
              .lock = -1,
              .checkpoints_lock = -1,
              .mirror_lock = -1,
              .saved_step = -1,
              .checked_step = -1};
  TS_TRY(ts_signals_start());
  TS_TRY(set_up(&r, o));
  if (o->check) goto done;
  if (o->import) {
    err = save_first(&r);
    goto done;
  }
  if (r.t->step >= r.last_step)
    ts_info("step %lld of %lld: nothing is left to train; raise %s to go on",
            (long long)r.t->step, (long long)r.last_step,
            config->run.steps > 0 ? "run.steps" : "run.epochs");
  else if (ts_run_has_best(&r))
    ts_info("step %lld of %lld: the run has ended, no validation was better "
            "than that of step %lld for run.stop.patience of them",
            (long long)r.t->step, (long long)r.last_step,
            (long long)r.state.best.step);
  err = end_saves(&r, loop(&r));
  ts_watch_enter(TS_SECTION_END);
  if (err != TS_OK && err != TS_ERR_STOPPED) goto done;
  ts_err reported = report_data(&r);
  if (reported == TS_OK) reported = ts_slow_report_end(&r.cache, r.t);
  ts_saves_report(&r.saves);
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
