/* late.h - results of a step on a device with discrete memory reach the host
 * late, so that no step waits for them.
 *
 * A step ends when its work is enqueued.  The host goes on with the next one,
 * but no further: each end waits for the step (or micro-batch) before.  Losses
 * come down by copies into pinned memory, predictions only in evaluation; who
 * needs a loss says so (ts_stage_fetch, ts_stage_judge_loss) and waits.  That
 * some loss was not finite is kept on the device until it is asked for.
 *
 * On the host nothing of this is there: t->late is NULL.
 * Functions are Local unless they say Collective or Enqueues. */
#pragma once

#include "runtime/arrays.h"
#include "runtime/clock.h"
#include "runtime/staging.h"
#include "train/trainer.h"

enum { TS_LATE_ROWS = 4 }; /* waits for rows in a step that are timed */

typedef struct ts_late {
  ts_staging staging;
  ts_arrays arrays;
  int32_t *nan; /* (1) device memory: some loss was not finite */
  ts_buffer pinned;
  int32_t *flag;      /* (1) pinned: of what is asked for */
  double *losses;     /* (accumulate) pinned: of the step's micro-batches */
  float *predictions; /* (batch_max, n_logits) pinned: evaluation's */
  int32_t n_losses;
  bool ended;      /* the next loss is a new step's */
  ts_event before; /* end of the step before */
  /* Marks around waits for rows: of this step and of the one before. */
  ts_clock *clock;
  int n_rows[2], turn;
} ts_late;

/* T has its lanes, sizes and kernels. */
ts_err ts_late_create(ts_late **, ts_trainer *t);
void ts_late_destroy(ts_late *); /* once the lanes are idle */

/* Copies the loss that was just enqueued to the host, and with PREDICTIONS
 * those of N samples.  Enqueues. */
ts_err ts_late_loss(ts_trainer *, int32_t n, bool predictions);
/* A step, or a micro-batch that others follow, ends here: waits for the one
 * before. */
ts_err ts_late_end(ts_trainer *, ts_event end, bool more);
/* Compute waits for EVENT; the time that it waits is added to prefetch_wait_s,
 * later.  Enqueues.  settle adds it now; the lanes are idle. */
ts_err ts_late_wait_rows(ts_trainer *, ts_event event);
ts_err ts_late_settle(ts_trainer *);
/* *VALUE of the flag at AT (1, device memory), once all is done; the flag
 * becomes 0. */
ts_err ts_late_flag(ts_trainer *, int32_t *at, bool *value);
/* Enqueues. */
ts_err ts_late_clear(ts_trainer *, int32_t *at);
