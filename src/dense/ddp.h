/* ddp.h - the inside of the strategy "ddp"; private to ddp*.c.
 *
 * Parameters and optimizer state are on every rank.  Buckets are laid out
 * once, in the reverse of the parameters' order, which is the order of the
 * backward pass: no search for unused parameters, no rebuild.
 *
 * Gradients are views into memory of their bucket, which is one of two kinds:
 *
 *   kept   a place of its own: gradients that wait for the end of the step
 *          (in_backward false) or for later micro-batches (accumulate > 1)
 *   slot   one of a few that buckets take in turns (bucket b slot b modulo
 *          n_slots): gradients that are used up as they come.  A bucket takes
 *          its slot when the backward pass acquires its first layer, and gives
 *          it back once it is updated (or added to what is kept); the lane
 *          that acquires waits for that.
 *
 * Gradients of parameters that are late (param.h) have room of their own in
 * both.
 *
 * Between gradients are gaps (TS_PARAM_ALIGN).  In what is kept they are zero
 * and stay so: norms, looks and sums go over them.  A slot has there what
 * earlier buckets left, and nobody reads that.
 * Functions are Local unless they say Collective or Enqueues. */
#pragma once

#include "dense/parallel_impl.h"
#include "runtime/arrays.h"

typedef struct ts_bucket {
  int32_t first, end; /* places: parameters in backward order */
  int64_t n;          /* floats, with gaps */
  int64_t at;         /* in what is kept */
  bool late;
  float *fresh;    /* (n) where backward writes: a slot, or as GRADS */
  float *grads;    /* (n) where they are summed over micro-batches and ranks */
  int32_t slot;    /* -1: none */
  int32_t missing; /* gradients still to come in this pass */
  ts_token token;
} ts_bucket;

typedef struct ts_slot {
  float *grads;
  int64_t n;      /* floats of its largest bucket */
  int32_t bucket; /* that has it, -1: free, once FREE is done */
  ts_event free;
} ts_slot;

typedef struct ts_ddp {
  ts_parallel base;
  ts_params *params;
  const ts_config *config;
  const ts_kernels *kernels;
  ts_comm *own_comm; /* its lane carries the reductions */
  ts_comm *comm;     /* the same, NULL on one rank */
  ts_dtype wire;     /* of reductions: f32, bf16, f16 */
  ts_lane *lane;     /* optimizers run here, beside the backward pass */
  /* layout */
  ts_param **place;  /* (n) parameters in backward order */
  int32_t *place_of; /* (n) by param->index */
  int32_t *group_of; /* (n) by place: number of its layer */
  int32_t *bucket_of;
  int64_t *offset; /* (n) by place: of its gradient in its bucket */
  ts_bucket *buckets;
  int32_t n_buckets;
  ts_slot *slots;
  int32_t n_slots;
  bool *came;     /* (n) by place: gradients of this pass */
  bool *released; /* by group: its parameters are not read again in this pass */
  ts_arrays arrays;   /* memory of slots, KEPT and so on, and states */
  float *kept, *late; /* NULL where not needed */
  int64_t n_kept;     /* floats of KEPT, with gaps */
  float *stash;       /* like KEPT: of the step before; NULL until used */
  int32_t *bad;       /* (1) what is stashed is not finite; with STASH */
  /* the step */
  bool in_backward, open, sync, stashing, stashed;
  int32_t next;        /* bucket to be reduced */
  int32_t next_update; /* and to be updated */
  int32_t n_earlier;   /* micro-batches that are in KEPT */
  int64_t step, n_reductions;
  double lr_factor;
  /* (2) the global norm, and what gradients are multiplied by: the lane's,
   * in the device's memory; NULL where nothing is clipped. */
  double *norm;
} ts_ddp;

/* ddp_layout.c */
ts_err ts_ddp_lay_out(ts_ddp *);
void ts_ddp_layout_reset(ts_ddp *);
/* Room for the gradients of P's layer, once LANE gets there.  Enqueues. */
ts_err ts_ddp_take_slots(ts_ddp *, const ts_param *p, ts_lane *);
/* Bucket B's slot is free once the work that LANE holds now is done.
 * Enqueues. */
void ts_ddp_give_slot(ts_ddp *, ts_bucket *b, ts_lane *);

/* ddp_update.c.  Enqueues, all of them; grads in device memory. */
ts_err ts_ddp_fold(ts_ddp *, ts_bucket *, ts_lane *);
ts_err ts_ddp_update(ts_ddp *, ts_bucket *, ts_lane *);
/* Clipping, where it is asked for, and all optimizers.  Enqueues. */
ts_err ts_ddp_update_all(ts_ddp *, double *grad_norm, ts_lane *);
ts_err ts_ddp_swap_stash(ts_ddp *, ts_lane *);
