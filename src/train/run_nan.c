/* run_nan.c - what a run does about a loss, a gradient or a weight that is not
 * a number; all ranks do it in the same step. */

#include "base/log.h"
#include "base/mem.h"
#include "train/late.h"
#include "train/run_impl.h"

/* Agreed before anything is saved over what was good. */
ts_err ts_run_check_nan(ts_run *r) {
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

/* Drops the log's lines after the checkpoint's step: these steps are trained
 * again, on other data. */
static ts_err forget_lines(ts_run *r, int64_t from) {
  static const char *const names[] = {"from"};
  const double v[] = {(double)from};
  if (r->t->rank != 0) return TS_OK;
  ts_metrics_log_close(r->log);
  r->log = NULL;
  TS_DO(ts_run_open_logs(r));
  return ts_metrics_log_line(r->log, &(ts_metrics_line){.step = r->t->step,
                                                        .event = "rollback",
                                                        .n = 1,
                                                        .names = names,
                                                        .values = v});
}

ts_err ts_run_roll_back(ts_run *r, ts_err code, const char *what) {
  ts_err err = TS_OK;
  ts_run_state old = {0};
  ts_str taken = {0};
  const int64_t failed = r->t->step + 1;
  TS_TRY(ts_saves_finish(&r->saves, r->log));
  if (r->saved_step < 0)
    TS_THROW(code,
             "step %lld: %s, and there is no checkpoint to go back to; "
             "checkpoint.every makes some",
             (long long)failed, what);
  TS_TRY(ts_settle(r->t, ts_trainer_rest(r->t)));
  if (r->t->pipeline->fence)
    TS_TRY(ts_settle(r->t, r->t->pipeline->fence(r->t)));
  TS_TRY(ts_settle(r->t, ts_trainer_let_go(r->t)));
  TS_TRY(ts_trainer_load(r->t, NULL, &old, &taken));
  TS_TRY(ts_trainer_place_again(r->t));
  if (r->t->late) TS_TRY(ts_settle(r->t, ts_late_clear(r->t, r->t->late->nan)));
  r->saved_step = r->t->step;
  TS_TRY(ts_run_loaded(r, taken.text, old.lacks));
  TS_TRY(ts_settle(r->t, forget_lines(r, failed)));
  ts_note("step %lld: %s; weights and optimizers are back at step %lld, the "
          "data goes on",
          (long long)failed, what, (long long)r->t->step);
done:
  ts_mem_free(old.source_state);
  ts_str_reset(&taken);
  return err;
}

ts_err ts_run_leave_out(ts_run *r) {
  const bool back =
      r->last.broken || r->config->run.on_nan == TS_ON_NAN_ROLLBACK;
  const char *what = r->last.broken ? "gradients or parameters are not finite"
                                    : "the loss is not finite";
  r->n_skipped++;
  r->n_back += back;
  if (r->n_skipped > r->config->run.max_skips)
    return ts_fail(
        TS_ERR_NAN,
        "step %lld: %s, and run.max_skips = %lld steps were left out before",
        (long long)r->t->step + 1, what, (long long)r->config->run.max_skips);
  if (!back) TS_DO(ts_run_forget_step(r));
  if (back) {
    TS_DO(ts_run_roll_back(r, TS_ERR_NAN, what));
  } else if (r->n_skipped == 1) {
    ts_note("step %lld: %s; the batch is left out, and so are those to come, "
            "without a word until the end",
            (long long)r->t->step + 1, what);
  }
  return TS_OK;
}
