/* run.c - the loop of a training run. */
#include "train/run.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "io/deck.h"
#include "io/metrics_log.h"
#include "runtime/trace.h"
#include "train/pipeline.h"
#include "train/planning.h"
#include "train/report.h"
#include "train/signals.h"

typedef struct ts_run {
  const ts_config *config;
  ts_trainer *t;
  ts_source *train, *eval;
  ts_loader *loader;
  ts_run_state state;
  ts_metrics_log *log;
  ts_trace_file trace;
  int lock;
  int64_t first_step; /* where this process began */
  int64_t last_step;  /* the step after which the run is done */
  int64_t saved_step; /* of the newest checkpoint, -1: none */
  int64_t n_skipped;
  double t0, t_log;         /* start; last progress line */
  int64_t n_samples, n_log; /* trained here; until the last line */
  ts_step_result last;
} ts_run;

/* ---- the output folder --------------------------------------------------- */

static ts_err lock_folder(ts_run *r) {
  ts_err err = TS_OK;
  ts_str path = {0};
  TS_TRY(ts_mkdirs(r->config->run.output));
  TS_TRY(ts_str_append(&path, "%s/lock", r->config->run.output));
  r->lock = open(path.text, O_CREAT | O_RDWR | O_CLOEXEC, 0666);
  if (r->lock < 0)
    TS_THROW(TS_ERR_IO, "run.output: %s: %s", path.text, strerror(errno));
  if (flock(r->lock, LOCK_EX | LOCK_NB) != 0)
    TS_THROW(TS_ERR_DECK,
             "%s is in use by another run; give this one its own run.output",
             r->config->run.output);
done:
  ts_str_reset(&path);
  return err;
}

static ts_err write_deck(const ts_run *r) {
  ts_err err = TS_OK;
  ts_str path = {0}, text = {0};
  FILE *f = NULL;
  TS_TRY(ts_str_append(&path, "%s/deck.effective", r->config->run.output));
  TS_TRY(ts_deck_print(&text, r->config));
  f = fopen(path.text, "w");
  if (!f || fwrite(text.text, 1, text.n_bytes, f) != text.n_bytes)
    err = ts_fail(TS_ERR_IO, "%s: %s", path.text, strerror(errno));
  if (f && fclose(f) != 0 && err == TS_OK)
    err = ts_fail(TS_ERR_IO, "%s: %s", path.text, strerror(errno));
done:
  ts_str_reset(&path);
  ts_str_reset(&text);
  return err;
}

/* The plan in force, in full; the log has it in short. */
static ts_err write_plan(const ts_run *r) {
  ts_err err = TS_OK;
  ts_str path = {0};
  const ts_trainer *t = r->t;
  if (t->rank != 0) return TS_OK;
  TS_TRY(ts_str_append(&path, "%s/plan", r->config->run.output));
  TS_TRY(
      ts_planning_save(t->planning, t->plan, t->planning->report, path.text));
done:
  ts_str_reset(&path);
  return err;
}

static ts_err open_output(ts_run *r) {
  ts_err err = TS_OK;
  ts_str path = {0};
  TS_TRY(lock_folder(r));
  TS_TRY(ts_str_append(&path, "%s/log", r->config->run.output));
  TS_TRY(ts_log_open(path.text));
  TS_TRY(write_deck(r));
done:
  ts_str_reset(&path);
  return err;
}

static ts_err open_logs(ts_run *r) {
  ts_err err = TS_OK;
  ts_str path = {0};
  if (r->t->rank == 0) {
    TS_TRY(ts_str_append(&path, "%s/metrics.jsonl", r->config->run.output));
    TS_TRY(ts_metrics_log_open(&r->log, path.text, r->t->step));
  }
done:
  ts_str_reset(&path);
  return err;
}

/* ---- where to start ------------------------------------------------------ */

/* With resume = "never" the checkpoints of an earlier run make room: they
 * are kept as NAME.old. */
static ts_err set_aside(const ts_run *r, ts_comm *comm) {
  ts_err err = TS_OK;
  ts_str path = {0}, old = {0};
  for (;;) {
    TS_TRY(ts_ckpt_newest(&path, r->config->checkpoint.dir, comm));
    if (!path.text) break;
    if (ts_comm_rank(comm) == 0) {
      ts_str_reset(&old);
      TS_TRY(ts_str_append(&old, "%s.old", path.text));
      if (rename(path.text, old.text) != 0)
        err = ts_fail(TS_ERR_CKPT, "%s: %s", path.text, strerror(errno));
    }
    TS_TRY(ts_agree(comm, err));
  }
done:
  ts_str_reset(&path);
  ts_str_reset(&old);
  return err;
}

/* What was measured then. */
static ts_err old_topology(ts_trainer *t, const ts_ckpt *ckpt) {
  ts_err err = TS_OK;
  const ts_ckpt_value *v = ts_ckpt_value_of(ckpt, "meta/topology");
  int64_t seen = v && v->dtype == TS_U8;
  TS_TRY(ts_comm_sum_i64(t->control, &seen, 1));
  if (seen == t->n_ranks) TS_TRY(ts_mem_strdup(&t->kept_topology, v->ptr));
done:
  return err;
}

/* The plan of the newest checkpoint, NULL where there is none to be had; a
 * damaged file is dealt with when it is loaded. */
static ts_err old_plan(const ts_run *r, char **plan) {
  ts_err err = TS_OK;
  ts_str path = {0};
  ts_ckpt ckpt = {0};
  int64_t ranks = 0;
  TS_TRY(ts_ckpt_newest(&path, r->config->checkpoint.dir, r->t->control));
  if (!path.text) goto done;
  if (ts_ckpt_peek(&ckpt, path.text) != TS_OK) ts_err_clear();
  const ts_ckpt_value *v = ts_ckpt_value_of(&ckpt, "meta/plan");
  const ts_ckpt_value *w = ts_ckpt_value_of(&ckpt, "meta/ranks");
  if (w && w->dtype == TS_I64 && w->n == 1) memcpy(&ranks, w->ptr, 8);
  /* All ranks read the same file, but only what all have seen counts. */
  int64_t seen = v && v->dtype == TS_U8 && ranks == r->t->n_ranks;
  TS_TRY(ts_comm_sum_i64(r->t->control, &seen, 1));
  if (seen == r->t->n_ranks) TS_TRY(ts_mem_strdup(plan, v->ptr));
  TS_TRY(old_topology(r->t, &ckpt));
done:
  ts_ckpt_reset(&ckpt);
  ts_str_reset(&path);
  return err;
}

static ts_err build(ts_run *r) {
  ts_err err = TS_OK;
  char *plan = NULL;
  const ts_config *c = r->config;
  const bool resume =
      c->checkpoint.dir && strcmp(c->checkpoint.resume, "never");
  if (resume) TS_TRY(old_plan(r, &plan));
  TS_TRY(ts_trainer_build(r->t, plan));
  TS_TRY(ts_settle(r->t, write_plan(r)));
done:
  ts_mem_free(plan);
  return err;
}

static ts_err start_weights(ts_run *r) {
  ts_err err = TS_OK;
  const ts_config *c = r->config;
  ts_str taken = {0};
  const bool never = !strcmp(c->checkpoint.resume, "never");
  if (c->checkpoint.dir && never)
    TS_TRY(set_aside(r, r->t->control));
  else if (c->checkpoint.dir)
    TS_TRY(ts_trainer_load(r->t, NULL, &r->state, &taken));
  r->saved_step = taken.text ? r->t->step : -1;
  if (taken.text) {
    ts_info("resumed at step %lld from %s", (long long)r->t->step, taken.text);
    goto done;
  }
  if (!strcmp(c->checkpoint.resume, "must"))
    TS_THROW(TS_ERR_CKPT,
             "checkpoint.resume = \"must\", and %s holds no checkpoint",
             c->checkpoint.dir ? c->checkpoint.dir : "no folder");
  TS_TRY(ts_settle(r->t, ts_ebc_init(r->t->ebc)));
  if (*c->checkpoint.init_from)
    TS_TRY(ts_trainer_init_from(r->t, c->checkpoint.init_from));
done:
  ts_str_reset(&taken);
  return err;
}

static ts_err open_data(ts_run *r) {
  ts_err err = TS_OK;
  const ts_config *c = r->config;
  ts_str state = {0};
  TS_TRY(ts_source_open(&r->train, c, TS_SPLIT_TRAIN, r->state.source_state,
                        r->t->control));
  if (r->train->ops->state_save)
    TS_TRY(ts_settle(r->t, r->train->ops->state_save(r->train, &state)));
  if (c->data.eval.n || !strcmp(r->train->info.format, "synthetic"))
    TS_TRY(
        ts_source_open(&r->eval, c, TS_SPLIT_EVAL, state.text, r->t->control));
  char n[32];
  ts_info("data: %s, %s samples, %d dense and %d sparse features",
          r->train->info.format, ts_str_count(n, r->train->info.n_samples),
          r->train->info.n_dense, r->train->info.n_features);
done:
  ts_str_reset(&state);
  return err;
}

static ts_err open_loader(ts_run *r) {
  const ts_config *c = r->config;
  const int64_t g = r->t->global_batch, n = r->train->info.n_samples;
  const int64_t per = c->data.drop_last ? n / g : (n + g - 1) / g;
  const int64_t skipped = r->state.loader.step - r->t->step;
  ts_loader_options o = {.global_batch = g,
                         .max_steps = c->run.steps > 0 ? c->run.steps : -1,
                         .epochs = c->run.epochs,
                         .drop_last = c->data.drop_last,
                         .rank = r->t->rank,
                         .n_ranks = r->t->n_ranks,
                         .depth = r->t->n_cargo + 1,
                         .device = r->t->device,
                         .serial = c->run.serial_lanes};
  r->last_step = c->run.steps > 0
                     ? c->run.steps
                     : (int64_t)(c->run.epochs * (double)per + 0.9999999);
  /* Batches that were skipped for NaN made no step. */
  if (o.max_steps >= 0 && skipped > 0) o.max_steps += skipped;
  return ts_loader_create(&r->loader, r->train, &o, &r->state.loader);
}

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
    ts_report_eval("evaluation", &m[k]);
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
  TS_TRY(ts_evaluate(r->t, r->eval, m, NULL, NULL));
  ts_ebc_stat_put(r->t->ebc, &trained);
  TS_TRY(ts_settle(r->t, log_eval(r, m)));
  if (isfinite(r->eval->info.bayes_auc))
    ts_info("the planted truth allows: AUC %.5f  log loss %.5f",
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

static ts_err one_step(ts_run *r, bool *end) {
  ts_err err = TS_OK;
  r->last = (ts_step_result){0};
  ts_run_trace_step(r->state.loader.step);
  err = r->t->pipeline->step(r->t, r->loader, asks(r), &r->last);
  if (err != TS_OK && err != TS_ERR_DATA && err != TS_ERR_DECK)
    ts_fail_alone(err);
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
                  r->t->rank == 0 && !check ? open_output(r) : TS_OK));
  TS_TRY(ts_report_header(r->t));
  TS_TRY(build(r));
  ts_report_plan(r->t);
  if (check) goto done;
  TS_TRY(start_weights(r));
  TS_TRY(open_data(r));
  TS_TRY(ts_settle(r->t, open_loader(r)));
  TS_TRY(ts_agree(r->t->control, open_logs(r)));
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
  ts_mem_free(r->state.source_state);
  ts_trainer_destroy(r->t);
  if (r->lock >= 0) close(r->lock);
  ts_log_close();
}

ts_err ts_run_train(const ts_config *config, const ts_run_options *o) {
  ts_err err = TS_OK;
  ts_run r = {.config = config, .lock = -1, .saved_step = -1};
  TS_TRY(ts_signals_start());
  TS_TRY(set_up(&r, o));
  if (o->check) goto done;
  if (r.t->step >= r.last_step)
    ts_info("step %lld of %lld: nothing is left to train", (long long)r.t->step,
            (long long)r.last_step);
  err = loop(&r);
  if (err != TS_OK && err != TS_ERR_STOPPED) goto done;
  ts_err reported = report_data(&r);
  if (reported == TS_OK)
    reported = ts_report_end(r.t, ts_now() - r.t0, r.n_samples,
                             r.t->step - r.first_step);
  if (reported == TS_OK) reported = ts_run_trace_close(&r.trace, r.t->control);
  if (err == TS_OK) err = reported;
done:
  if (r.trace.path) ts_trace_file_reset(&r.trace);
  tear_down(&r);
  ts_signals_stop();
  return err;
}
