/* late.c - what the host hears of a step whose memory is discrete, and when. */
#include "train/late.h"

#include <math.h>

#include "base/mem.h"

/* ---- its memory ---------------------------------------------------------- */

static ts_err take_pinned(ts_late *l, const ts_trainer *t) {
  const int32_t n_losses = t->config->run.accumulate;
  const size_t losses = (size_t)n_losses * sizeof *l->losses;
  const size_t bytes =
      (size_t)t->batch_max * (size_t)t->n_logits * sizeof(float);
  TS_DO(ts_buffer_create(&l->pinned, t->device, 64 + losses + bytes,
                         TS_SPACE_PINNED, TS_TAG_ACTIVATIONS));
  char *at = l->pinned.ptr;
  l->flag = (int32_t *)(void *)at;
  l->losses = (double *)(void *)(at + 64);
  l->predictions = (float *)(void *)(at + 64 + losses);
  return TS_OK;
}

ts_err ts_late_create(ts_late **out, ts_trainer *t) {
  ts_err err = TS_OK;
  ts_late *l = NULL;
  TS_TRY(ts_mem_alloc(&l, sizeof *l, TS_TAG_MISC));
  l->ended = true;
  TS_TRY(ts_staging_create(&l->staging, t->device));
  TS_TRY(ts_arrays_take(&l->arrays, t->device, &l->nan, 1, sizeof *l->nan,
                        TS_TAG_ACTIVATIONS));
  TS_TRY(take_pinned(l, t));
  TS_TRY(ts_clock_create(&l->clock, t->compute, 2 * 2 * TS_LATE_ROWS));
  *out = l;
done:
  if (err != TS_OK) ts_late_destroy(l);
  return err;
}

void ts_late_destroy(ts_late *l) {
  if (!l) return;
  ts_clock_destroy(l->clock);
  ts_buffer_reset(&l->pinned);
  ts_arrays_reset(&l->arrays);
  ts_staging_reset(&l->staging);
  ts_mem_free(l);
}

/* ---- losses -------------------------------------------------------------- */

ts_err ts_late_loss(ts_trainer *t, int32_t n, bool predictions) {
  ts_late *l = t->late;
  if (l->ended) l->n_losses = 0;
  l->ended = false;
  TS_DO(ts_lane_copy(t->compute, &l->losses[l->n_losses++], t->loss_sum,
                     sizeof *t->loss_sum));
  if (predictions && n)
    TS_DO(ts_lane_copy(t->compute, l->predictions, t->predictions,
                       (size_t)n * (size_t)t->n_logits * sizeof(float)));
  return TS_OK;
}

static ts_err add_rows(ts_trainer *t, int turn) {
  ts_late *l = t->late;
  for (int k = 0; k < l->n_rows[turn]; k++) {
    const int mark = 2 * (turn * TS_LATE_ROWS + k);
    double s;
    TS_DO(ts_clock_between(l->clock, mark, mark + 1, &s));
    t->prefetch_wait_s += s;
  }
  l->n_rows[turn] = 0;
  return TS_OK;
}

ts_err ts_late_end(ts_trainer *t, ts_event end, bool more) {
  ts_late *l = t->late;
  l->ended = !more;
  TS_DO(ts_event_sync(l->before));
  l->before = end;
  l->turn ^= 1;
  TS_DO(add_rows(t, l->turn)); /* of the step that has been waited for */
  return TS_OK;
}

ts_err ts_stage_fetch(ts_trainer *t, ts_step_result *r) {
  const ts_late *l = t->late;
  bool nan;
  double sum = 0;
  if (!l) return TS_OK;
  TS_DO(ts_late_flag(t, l->nan, &nan));
  r->nan |= nan;
  for (int k = 0; k < t->n_inflight; k++)
    TS_DO(ts_ebc_input_wait(ts_inflight_at(t, k)->ebc_batch));
  if (!r->late) return TS_OK;
  for (int32_t k = 0; k < l->n_losses; k++) sum = l->losses[k] + sum;
  r->loss_sum = sum;
  r->nan |= !isfinite(sum);
  r->late = false;
  return TS_OK;
}

/* ---- flags --------------------------------------------------------------- */

typedef struct ts_clear_arg {
  const ts_kernels *kernels;
  int32_t *at;
} ts_clear_arg;

static ts_err clear_task(void *arg, ts_lane *lane) {
  const ts_clear_arg *a = arg;
  (void)lane;
  return a->kernels->zero(a->at, sizeof *a->at);
}

ts_err ts_late_clear(ts_trainer *t, int32_t *at) {
  const ts_clear_arg a = {&t->kernels, at};
  return ts_lane_submit(t->compute, "clear", clear_task, &a, sizeof a);
}

ts_err ts_late_flag(ts_trainer *t, int32_t *at, bool *value) {
  TS_DO(ts_lane_copy(t->compute, t->late->flag, at, sizeof *at));
  TS_DO(ts_lane_sync(t->compute));
  *value = *t->late->flag != 0;
  if (*value) TS_DO(ts_late_clear(t, at));
  return TS_OK;
}

/* ---- rows of slow memory ------------------------------------------------- */

ts_err ts_late_wait_rows(ts_trainer *t, ts_event event) {
  ts_late *l = t->late;
  const int k = l->n_rows[l->turn];
  const int mark = 2 * (l->turn * TS_LATE_ROWS + k);
  const bool timed = k < TS_LATE_ROWS;
  if (timed) TS_DO(ts_clock_mark(l->clock, mark));
  TS_DO(ts_lane_wait(t->compute, event));
  if (timed) TS_DO(ts_clock_mark(l->clock, mark + 1));
  l->n_rows[l->turn] += timed;
  return TS_OK;
}

ts_err ts_late_settle(ts_trainer *t) {
  const ts_err err = add_rows(t, 0);
  return err == TS_OK ? add_rows(t, 1) : err;
}
