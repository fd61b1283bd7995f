/* ddp.h - data-parallel dense parameters: bucketed all-reduce begun as
 * gradients are ready, optimizer in backward.
 *
 * Buckets follow the static backward order (the reverse of the parameters');
 * a bucket closes once it holds bucket_mb; bucket_mb 0: first 1 MiB, then
 * 25.  Gradients are views into buckets: no second copy.  The loss gradient
 * is already that of the global mean, so buckets are summed, not averaged. */
#ifndef TS_DENSE_DDP_H
#define TS_DENSE_DDP_H

#include "dense/mlp.h"
#include "dense/optim.h"
#include "runtime/comm.h"
#include "runtime/kernels.h"

typedef struct ts_ddp ts_ddp;

typedef struct ts_ddp_stat {
  int32_t n_buckets;
  int64_t n_reductions; /* since creation */
} ts_ddp_stat;

/* Sets grad and state of all PARAMS.  Chooses each parameter's optimizer by
 * the deck's overrides (last match wins).  COMM: its lane carries the
 * reductions.  Collective (its layout is agreed). */
ts_err ts_ddp_create(ts_ddp **, ts_params *, const ts_config *, ts_device *,
                     const ts_kernels *, ts_comm *);
void ts_ddp_destroy(ts_ddp *);

/* Before a step's backward: step number (from 1) for schedule and bias
 * correction; SYNC false: gradients are only accumulated (micro-batches but
 * the last; needs run.accumulate > 1). */
ts_err ts_ddp_begin(ts_ddp *, int64_t step, bool sync);
/* The hook for models: ts_grad_hook.arg is the ts_ddp. */
ts_err ts_ddp_ready(void *ddp, ts_param *, ts_lane *);
/* After backward: LANE waits until all parameters are updated (in_backward),
 * or clips by the global norm and runs the optimizers now.  *GRAD_NORM (when
 * clipping, else untouched) is valid after the lane got here. */
ts_err ts_ddp_end(ts_ddp *, double *grad_norm, ts_lane *);

/* Delayed updates: with ON the next ddp_end applies the gradients that the
 * one before it kept (none the first time) and keeps its own.  Not with
 * in_backward. */
ts_err ts_ddp_stash(ts_ddp *, bool on);
/* Applies what is kept, as part of step STEP.  Enqueues. */
ts_err ts_ddp_unstash(ts_ddp *, int64_t step, ts_lane *);

ts_ddp_stat ts_ddp_stat_of(const ts_ddp *);
/* The optimizer in force of a parameter, for checkpoints and the log. */
const ts_optim_config *ts_ddp_optim(const ts_ddp *, const ts_param *);

#endif
