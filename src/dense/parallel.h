/* parallel.h - how the ranks share dense parameters: where parameters,
 * gradients and optimizer state live, when gradients travel, when optimizers
 * run.  Strategies (dense.parallel): ddp.c, one table in parallel.c.
 *
 * A step: begin, the model's passes with ts_parallel_hooks, end.  The loss
 * gradient is already that of the global mean, so gradients are summed, not
 * averaged.  Functions are Local unless they say Collective or Enqueues. */
#pragma once

#include "dense/hooks.h"
#include "dense/param_optim.h"
#include "runtime/comm.h"
#include "kernel_table.h"

typedef struct ts_parallel ts_parallel;

typedef struct ts_parallel_spec {
  ts_params *params; /* must stay, and keeps its items' order */
  const ts_config *config;
  ts_device *device;
  ts_world *world; /* for communicators of its own */
  const ts_kernels *kernels;
  bool training; /* false: no gradients, no optimizer state */
} ts_parallel_spec;

typedef struct ts_parallel_stat {
  int32_t n_buckets;    /* or groups */
  int64_t n_reductions; /* since creation */
  int64_t sent_bytes;   /* to other ranks, in them */
} ts_parallel_stat;

/* This rank's part of a parameter: rows (elements of a vector) [row0, row0 +
 * n_rows) of w and of each state.  REPLICATED: every rank holds the same. */
typedef struct ts_param_piece {
  bool replicated;
  int64_t row0, n_rows;
  /* (n_rows, cols), device memory. */
  float *w, *state[TS_PARAM_STATES_MAX];
} ts_param_piece;

/* The deck's strategy holds parts of parameters: ts_params.deferred saves
 * memory. */
bool ts_parallel_defers(const ts_config *);
/* How gradients travel: dense.comm_dtype.  DECK where it is none. */
ts_err ts_parallel_wire(ts_dtype *, const ts_config *);

/* Sets grad and state of all parameters.  dense.parallel says which.
 * Collective (its layout is agreed). */
ts_err ts_parallel_create(ts_parallel **, const ts_parallel_spec *);
void ts_parallel_destroy(ts_parallel *);

/* For the model's passes. */
ts_layer_hooks ts_parallel_hooks(ts_parallel *);

/* From the next begin on all rates are RATE times the schedule's; 1 at first.
 * Local, the same on all ranks. */
void ts_parallel_slow(ts_parallel *, double rate);
/* Factor of all rates in STEP, the tables' too.  Local. */
double ts_parallel_rate(const ts_parallel *, int64_t step);
/* Before a step's backward: step number (from 1) for schedule and bias
 * correction; SYNC false: gradients are only accumulated (micro-batches but
 * the last; needs run.accumulate > 1). */
ts_err ts_parallel_begin(ts_parallel *, int64_t step, bool sync);
/* Collective: all ranks enqueue it.  After the backward pass of each
 * micro-batch: LANE waits until all parameters are updated (in_backward), or
 * clips by the global norm and runs the optimizers now.  *GRAD_NORM (when
 * clipping, else untouched) is valid after the lane got here; where the device
 * has discrete memory it must be pinned, or the host waits. */
ts_err ts_parallel_end(ts_parallel *, double *grad_norm, ts_lane *);

/* Forgets the micro-batches of the step under way: it is left out. */
void ts_parallel_drop(ts_parallel *);

/* Delayed updates: with ON the next end applies the gradients that the one
 * before it kept (none the first time) and keeps its own.  Not with
 * in_backward. */
ts_err ts_parallel_stash(ts_parallel *, bool on);
/* Applies what is kept, as part of step STEP.  Enqueues. */
ts_err ts_parallel_unstash(ts_parallel *, int64_t step, ts_lane *);

/* This rank's part of what is kept is finite, or nothing is.  The lanes are
 * idle.  Local. */
bool ts_parallel_stash_finite(const ts_parallel *);

ts_parallel_stat ts_parallel_stat_of(const ts_parallel *);
/* The optimizer in force of a parameter, for checkpoints and the log. */
const ts_optim_config *ts_parallel_optim(const ts_parallel *, const ts_param *);
/* For checkpoints; the lanes are idle.  Local. */
ts_param_piece ts_parallel_piece(const ts_parallel *, const ts_param *);
/* Averages (optimizer.ema) are as the weights are now: P's, NULL: all.
 * Enqueues. */
ts_err ts_parallel_start_averages(ts_parallel *, const ts_param *p, ts_lane *);
/* Weights and averages change places, for an evaluation and after it.  The
 * lanes are idle, and LANE is again when it returns.  Nothing where there are
 * none. */
ts_err ts_parallel_swap_averages(ts_parallel *, ts_lane *);
/* Weights were changed from outside (a checkpoint, init_from). */
void ts_parallel_touch(ts_parallel *);
