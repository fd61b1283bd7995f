/* run_fault.c - what a run does about a rank that holds other weights than the
 * others, or computes the same thing twice with different results: run.check.
 *
 * All ranks know of it in the same step.  What is compared is compared before
 * each checkpoint, too, so that none is written of weights that are known to
 * differ. */
#include "base/fault.h"
#include "base/log.h"
#include "train/recompute.h"
#include "train/replicas.h"
#include "train/run_impl.h"

/* WHAT is the same on all ranks, and so is the error. */
static ts_err stop(const ts_run *r, int64_t step, const char *what) {
  ts_err_record fault;
  const ts_err err =
      r->saved_step < 0
          ? ts_fail(TS_ERR_FAULT,
                    "step %lld: %s: memory or a processor is at fault there "
                    "(run.check), and there is no checkpoint to go on from",
                    (long long)step, what)
          : ts_fail(TS_ERR_FAULT,
                    "step %lld: %s: memory or a processor is at fault there "
                    "(run.check); nothing was saved since, the same command "
                    "goes on from the last checkpoint",
                    (long long)step, what);
  ts_err_take(&fault);
  fault.agreed = true;
  ts_err_put(&fault);
  return err;
}

/* A checkpoint of STEP is due, or may be. */
static bool saves(const ts_run *r, int64_t step) {
  const int64_t every = r->config->checkpoint.every,
                delta = r->config->checkpoint.delta_every,
                valid = r->valid ? r->config->run.valid_every : 0;
  if (!r->config->checkpoint.dir) return false;
  return (every > 0 && step % every == 0) || (delta > 0 && step % delta == 0) ||
         (valid > 0 && step % valid == 0) || step == r->last_step ||
         r->last.stop;
}

static ts_err go_back(ts_run *r, const char *what) {
  if (r->n_faults++ >= r->config->run.max_skips)
    return ts_fail(TS_ERR_FAULT,
                   "step %lld: %s, and the run went back run.max_skips = %lld "
                   "times before",
                   (long long)r->t->step + 1, what,
                   (long long)r->config->run.max_skips);
  r->checked_step = -1;
  return ts_run_roll_back(r, TS_ERR_FAULT, what);
}

ts_err ts_run_check_faults(ts_run *r, bool *back) {
  ts_err err = TS_OK;
  ts_str what = {0};
  const int64_t step = r->t->step + 1;
  *back = false;
  if (ts_fault("flip_weight")) TS_DO(ts_replicas_flip(r->t));
  if (r->config->run.check == TS_CHECK_NONE) return TS_OK;
  TS_TRY(ts_recompute_judge(r->t, &what));
  if (!what.text &&
      (step % r->config->run.check_every == 0 || saves(r, step))) {
    TS_TRY(ts_replicas_compare(r->t, &what));
    r->checked_step = step;
  }
  *back = what.text && r->config->run.on_fault == TS_ON_FAULT_ROLLBACK;
  if (*back)
    err = go_back(r, what.text);
  else if (what.text)
    err = stop(r, step, what.text);
done:
  ts_str_reset(&what);
  return err;
}

ts_err ts_run_check_saved(ts_run *r) {
  ts_err err = TS_OK;
  ts_str what = {0};
  if (r->config->run.check == TS_CHECK_NONE || r->checked_step == r->t->step)
    return TS_OK;
  TS_TRY(ts_replicas_compare(r->t, &what));
  r->checked_step = r->t->step;
  if (what.text) err = stop(r, r->t->step, what.text);
done:
  ts_str_reset(&what);
  return err;
}
