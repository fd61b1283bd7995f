/* bench_copy.h - the copies of batches to a discrete device, in benchmarks: how
 * long each took there, and what part of it lay before the end of the batch
 * before.  Nothing of all this on the host.
 * Functions are Local unless they say Collective or Enqueues. */
#pragma once

#include "runtime/clock.h"
#include "train/trainer.h"

typedef struct ts_bench_copies {
  ts_trainer *t;
  ts_clock *compute; /* marks: the start, the end of each step */
  int n_steps, n_done;
  ts_upload_stat before; /* of a block's start */
  /* Sums over all blocks. */
  int64_t n_copies;
  double bytes, seconds, hideable, hidden;
} ts_bench_copies;

/* Blocks of at most N_STEPS steps, in which at most N_STEPS + 2 batches are
 * copied.  Local. */
ts_err ts_bench_copies_start(ts_bench_copies *, ts_trainer *, int n_steps);
void ts_bench_copies_reset(ts_bench_copies *);
/* A block begins, after each of its steps, and at its end, when its figures
 * are added. */
ts_err ts_bench_copies_begin(ts_bench_copies *);
ts_err ts_bench_copies_step(ts_bench_copies *);
ts_err ts_bench_copies_end(ts_bench_copies *);
/* A line, and the figures start anew.  AHEAD: batches are copied ahead.
 * Collective. */
ts_err ts_bench_copies_print(ts_bench_copies *, bool ahead);
