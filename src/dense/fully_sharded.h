/* fully_sharded.h - parts of the strategy "fully_sharded"; private to
 * fully_sharded*.c and its tests.
 *
 * Parameters are gathered and reduced in groups, by default one per layer.
 * A rank keeps the rows of each parameter that torch.chunk would give it: c =
 * ceil(rows / W) from c * rank on, padded to c; the last ranks may have none.
 * A group's shard is its parameters' pieces one after the other (S
 * floats), its flat the shards of all ranks, [W][S], and its whole the
 * parameters as the model wants them.
 *
 *     shard --all-gather--> flat --copy-out--> whole      (forward, backward)
 *     grads --copy-in--> input --reduce-scatter--> shard's gradient --> update
 *
 * Weights that are read in bf16 alone (param->half) travel so, in half the
 * bytes, with the same bits in what is computed: the flat has S' < S floats a
 * rank then, into which the shard is shortened.  dense.comm_dtype is that of
 * inputs, as of ddp's buckets.
 *
 * Flats, wholes, gradients and inputs live in slots as large as the largest
 * group needs.  Taking a slot makes one's own lane wait for the slot's last
 * use, so memory is bounded by the number of slots whatever the model's depth,
 * and the host never waits.
 * Functions are Local unless they say Collective or Enqueues. */
#pragma once

#include "dense/parallel_impl.h"
#include "runtime/arrays.h"

typedef struct ts_fully_sharded_slot {
  float *at;
  ts_event last_use;
  bool taken;     /* by what the host has enqueued so far */
  uint64_t given; /* when it was given back, in host order */
} ts_fully_sharded_slot;

/* A parameter in its group. */
typedef struct ts_fully_sharded_part {
  ts_param *param;
  int64_t width;        /* floats of a row */
  int64_t chunk;        /* rows of a rank, padding included */
  int64_t shard_at;     /* floats: in the shard and its gradient */
  int64_t flat_at;      /* in a rank's part of the flat */
  int64_t whole_at;     /* in the whole */
  bool half;            /* bf16 in the flat */
  int64_t row0, n_rows; /* this rank's */
  float *w;             /* (n_rows, width) of the shard */
} ts_fully_sharded_part;

typedef struct ts_fully_sharded_group {
  const char *name; /* of its first layer */
  ts_fully_sharded_part *parts;
  int32_t n_parts, n_layers;
  int64_t shard_n, whole_n; /* floats */
  int64_t flat_n;           /* a rank's part of the flat; shard_n unless half */
  bool half;                /* some of its parts are */
  float *shard;
  int32_t *list[2]; /* by pass: groups to gather early; owned */
  int32_t n_list[2];
  /* gathering */
  int32_t slot;        /* of its flat; -1: not gathered */
  ts_event gathered;   /* end of its last all-gather */
  float *kept;         /* between forward and backward: its block's part of the
                          flat, or the whole; NULL where all ranks share it */
  ts_event kept_at;    /* when that was written */
  bool is_kept;        /* since this step's forward */
  int32_t layers_done; /* released in this pass */
  /* gradients */
  int32_t missing;             /* parameters whose gradient is still to come */
  ts_fully_sharded_slot own;   /* its shard's gradient, unless in_backward */
  ts_fully_sharded_slot *grad; /* the one in use */
  float *earlier;              /* sum of earlier micro-batches; or NULL */
  ts_event reduced;            /* end of the last reduction */
  ts_event updated;
  /* (n_parts, 2) sums over whole parameters, in the device's memory; NULL where
   * no optimizer of the group needs them (lamb, lars) */
  double *stats;
} ts_fully_sharded_group;

/* Events of groups, in the order in which the host enqueues them. */
typedef enum {
  TS_FULLY_SHARDED_GATHER,  /* its all-gather is begun */
  TS_FULLY_SHARDED_OPEN,    /* its flat has been copied out */
  TS_FULLY_SHARDED_RESHARD, /* its whole is given back */
  TS_FULLY_SHARDED_REDUCE,  /* its reduce-scatter is begun */
  TS_FULLY_SHARDED_DRAIN    /* gathered, never used, given back */
} ts_fully_sharded_event;

/* Slots in use, in the order of the host. */
typedef struct ts_fully_sharded_live {
  int flats, wholes, grads, inputs;
} ts_fully_sharded_live;

/* Slots by number. */
enum { TS_FULLY_SHARDED_WHOLE, TS_FULLY_SHARDED_GRAD, TS_FULLY_SHARDED_INPUTS };

typedef struct ts_fully_sharded {
  ts_parallel base;
  ts_params *params;
  const ts_config *config;
  const ts_kernels *kernels;
  int rank, n_ranks;
  /* Between forward and backward a group is kept by blocks of ranks, each
   * with its part of the flat; with keeps_whole each rank has all of it. */
  int block;
  bool keeps_whole;
  ts_comm *gather_comm; /* lanes of their own */
  ts_comm *block_comm;  /* NULL unless 1 < block < n_ranks */
  ts_comm *reduce_comm; /* NULL unless training */
  ts_comm *norm_comm;   /* NULL unless a group has stats */
  ts_lane *lane;    /* optimizers and conversions for the wire run here, beside
                       the passes; NULL where there is neither */
  ts_arrays arrays; /* shards, slots, gradients, states: device memory */
  ts_fully_sharded_group *groups;
  int32_t n_groups;
  ts_fully_sharded_group late; /* parameters that every rank has whole */
  int32_t *group_of;           /* (params) by param->index; -1: late */
  float *shards;               /* all groups' */
  ts_fully_sharded_slot *slots;
  int32_t n_slots, n_flats[2]; /* flats: by pass */
  int64_t slot_n;              /* floats of a slot */
  float *slot_memory;
  int64_t *counts; /* (n_ranks) scratch of the host */
  uint64_t clock;
  /* the pass under way */
  int pass;           /* ts_pass, -1: none */
  int32_t last;       /* group acquired last */
  int32_t open;       /* group that is acquired now, or -1 */
  int32_t held;       /* slot of the flat that forward copied out last, -1 */
  bool first;         /* the next all-gather is the pass's first */
  ts_event optimized; /* the last optimizer; {0} once it has been waited for */
  ts_fully_sharded_live live;
  void (*watch)(void *arg, ts_fully_sharded_event, int32_t group); /* or NULL */
  void *watch_arg;
  /* gradients */
  float *grads; /* all shards' and the late parameters' own */
  int64_t grads_n;
  float *grad_memory;
  ts_fully_sharded_slot
      recycled[2];        /* in_backward: shards' gradients take turns */
  float *earlier, *stash; /* NULL unless used */
  int32_t *bad;           /* (1) what is stashed is not finite; with STASH */
  ts_dtype wire;          /* of inputs */
  bool in_backward, sync, stashing, stashed;
  int32_t n_earlier, next_input, next_recycled;
  int64_t step, n_reductions;
  double lr_factor;
  /* (2) the global norm, and what gradients are multiplied by: the lane's,
   * in the device's memory; NULL where nothing is clipped. */
  double *norm;
} ts_fully_sharded;

/* *P = N elements of SIZE bytes in the device's memory, zeroed, as long as the
 * strategy lives. */
ts_err ts_fully_sharded_take(ts_fully_sharded *, void *p, int64_t n,
                             size_t size, ts_tag);

/* fully_sharded_norms.c: sums over whole parameters for optimizers that need
 * them.  Create: collective.  ts_fully_sharded_norms enqueues those of G, whose
 * shard's gradients are GRADS; LANE waits for them. */
ts_err ts_fully_sharded_norms_create(ts_fully_sharded *);
ts_err ts_fully_sharded_norms(ts_fully_sharded *, ts_fully_sharded_group *g,
                              ts_lane *lane);
/* The update of PART of G in this step, but for its stats; n 0: there is none.
 */
ts_dense_update_args ts_fully_sharded_update_args(const ts_fully_sharded *,
                                                  const ts_fully_sharded_part *,
                                                  const float *grads,
                                                  double lr_factor,
                                                  int64_t step);

/* fully_sharded_copy.c: from a group's flat, (n_ranks, flat_n), to its whole,
 * with KEPT, one more copy, or 0; from the whole to an input, (n_ranks,
 * shard_n); from the shard to this rank's part of the flat.  Enqueue. */
ts_err ts_fully_sharded_copy_out(const ts_fully_sharded *,
                                 const ts_fully_sharded_group *,
                                 const float *flat, float *whole,
                                 ts_flat_copy kept, ts_lane *);
ts_err ts_fully_sharded_copy_in(const ts_fully_sharded *,
                                const ts_fully_sharded_group *,
                                const float *whole, float *input, ts_lane *);
ts_err ts_fully_sharded_shorten(const ts_fully_sharded *,
                                const ts_fully_sharded_group *, float *flat,
                                ts_lane *);

/* fully_sharded_groups.c: groups, shards with their initial values, lists.
 * DECK errors name the layers that there are. */
ts_err ts_fully_sharded_groups_create(ts_fully_sharded *);
void ts_fully_sharded_groups_destroy(ts_fully_sharded *);

/* fully_sharded_gather.c.  acquire, release and pass are Collective: they begin
 * all-gathers, which all ranks enqueue in one order. */
ts_err ts_fully_sharded_slots_create(ts_fully_sharded *);
ts_err ts_fully_sharded_acquire(void *fs, const ts_param *, ts_pass, ts_lane *);
ts_err ts_fully_sharded_release(void *fs, const ts_param *, ts_pass, ts_lane *);
/* A pass begins or ends: what was gathered and not used is given back. */
void ts_fully_sharded_pass(ts_fully_sharded *, int pass);
void ts_fully_sharded_note(ts_fully_sharded *, ts_fully_sharded_event,
                           int32_t group);

/* fully_sharded_reduce.c.  ready is Collective: it begins reduce-scatters. */
ts_err ts_fully_sharded_grads_create(ts_fully_sharded *);
ts_err ts_fully_sharded_ready(void *fs, ts_param *, ts_lane *);

/* fully_sharded_update.c.  update Enqueues; end and unstash are Collective
 * where gradients are clipped, as the norm is of all ranks. */
ts_err ts_fully_sharded_update(ts_fully_sharded *, ts_fully_sharded_group *,
                               ts_lane *);
ts_err ts_fully_sharded_end(ts_parallel *, double *grad_norm, ts_lane *);
ts_err ts_fully_sharded_stash(ts_parallel *, bool on);
bool ts_fully_sharded_stash_finite(const ts_parallel *);
ts_err ts_fully_sharded_unstash(ts_parallel *, int64_t step, ts_lane *);
