/* ebc.h - the sharded embedding bag collection: all tables of the model over
 * all ranks, from a batch of ids to pooled embeddings and back.
 *
 *     input_begin   packs and sends ids (one exchange for all tables)
 *     input_end     unpacks what arrived into the groups' bags
 *     lookup        looks up all groups and begins output dist
 *     output_end    the compute lane waits; views are valid
 *     backward_begin  sends gradients back
 *     backward_end    fused backward + row optimizers
 *
 * A batch in flight holds what one batch needs between the first and the last
 * of these; a pipeline has as many batches in flight as it has batches under
 * way. Functions are Local unless they say Collective or Enqueues. */
#pragma once

#include "dense/param.h"
#include "runtime/comm.h"
#include "kernel_table.h"
#include "shard/plan.h"
#include "sparse/kjt.h"
#include "sparse/tbe.h"

typedef struct ts_ebc ts_ebc;
typedef struct ts_ebc_batch ts_ebc_batch;

/* Every rank sends its status to every other with its ids, so all ranks agree
 * on errors and stops without a further message. */
typedef struct ts_status {
  int32_t err;  /* ts_err of the reader */
  int32_t stop; /* a stop was asked for: 1 soon, 2 now */
  int32_t n;    /* local samples */
  int32_t done; /* no more batches here */
  double weight_sum;
  int64_t n_targets; /* of the local samples, for a loss over all items */
  int32_t learns;    /* new ids of dynamic tables get rows; 2: and its step's
                        micro-batches have begun with others */
  int32_t unused;    /* 0 */
} ts_status;

/* Collective.  Every rank holds the same config, plan and nodes (those of the
 * world's ranks); all must outlive the collection. */
ts_err ts_ebc_create(ts_ebc **, const ts_config *, const ts_plan *,
                     const ts_nodes *, ts_world *, ts_device *,
                     const ts_kernels *);
void ts_ebc_destroy(ts_ebc *);
ts_err ts_ebc_init(ts_ebc *); /* initial weights; device memory */
int32_t ts_ebc_n_features(const ts_ebc *);
/* Whether the host counts what travels, as it has read it, on a device that
 * would have to be waited for (comm.input_dist); the same on all ranks. */
bool ts_ebc_counts(const ts_ebc *);

/* Weights per position of the tables with a feature processor: the
 * collection owns the parameters, the dense optimizer trains them.  lookup
 * reads them on the compute lane; backward_end writes (=) this rank's part of
 * their gradients, where grad is set, to be summed over ranks. */
ts_params *ts_ebc_params(ts_ebc *);
bool ts_ebc_has_processors(const ts_ebc *);

/* Batches have some BATCH samples a rank, and a sample has POOLING
 * (n_features) ids of each feature: messages and buffers start at that size.
 * Once, before the batches in flight; the same on all ranks.  Without it
 * everything starts small and grows.  Local. */
ts_err ts_ebc_expect(ts_ebc *, int32_t batch, const double *pooling);

/* TRAINS: a backward pass follows, so a discrete device sorts ids as they
 * come. */
ts_err ts_ebc_batch_create(ts_ebc_batch **, ts_ebc *, int32_t batch_max,
                           bool trains);
void ts_ebc_batch_destroy(ts_ebc_batch *);

/* The arrays of the next batch lie in BYTES at FROM and kernels see those at
 * AT: only what lies elsewhere is copied for them.  Of discrete devices.
 * expect: batches will come like this; with ts_ebc_expect. */
void ts_ebc_batch_uploaded(ts_ebc_batch *, const void *from, size_t bytes,
                           const void *at);
void ts_ebc_expect_uploaded(ts_ebc *);
/* From here to backward_end the calls are Collective: all ranks make them in
 * one order.  They Enqueue, on the lane that they are given; those that make
 * the host wait say so. KJT and STATUS are read on the data lane until
 * input_end's work is done. */
ts_err ts_ebc_input_begin(ts_ebc_batch *, const ts_kjt *, const ts_status *,
                          ts_lane *data);
ts_err ts_ebc_input_end(ts_ebc_batch *, ts_lane *data);
/* Everyone's status; the host waits for it.  (W) entries. */
ts_err ts_ebc_statuses(ts_ebc_batch *, const ts_status **all);
/* The same once more, of the batch that is under way.  Local. */
const ts_status *ts_ebc_known_statuses(const ts_ebc_batch *);

/* For dynamic tables, after input_end's work is done.  learnt: this is the N-th
 * batch (from 1) whose new ids got rows; 0: its ids got none.  place_again:
 * looks up the rows of the batch's ids once more, because they were forgotten,
 * have lost their rows or got others; the lanes are idle, and batches come in
 * the order of learnt.  Enqueues on DATA.  The others are Local. */
uint32_t ts_ebc_batch_learnt(const ts_ebc_batch *);
uint32_t ts_ebc_n_learnt(const ts_ebc *); /* such batches that have come */
/* Batches that are not learnt from, from here on, find no ids that batches from
 * FIRST on have brought, as those are of steps to come; 0: none is ahead. */
void ts_ebc_hide_from(ts_ebc *, uint32_t first);
/* Batches from FIRST on, of steps that were left out or are to come, are as if
 * they had brought no ids; the lanes are idle.  MEMORY.  Local. */
ts_err ts_ebc_forget_from(ts_ebc *, uint32_t first);
ts_err ts_ebc_place_again(ts_ebc_batch *, ts_lane *data);

/* A table's ids on all ranks: how many are left, how many lost their rows. */
typedef struct ts_evicted {
  int64_t n_ids, n_evicted;
} ts_evicted;
/* After STEP, the lanes idle: ids of the tables for which it is time lose their
 * rows as their decks say (evict.c), the same on any ranks; OUT (n_tables),
 * n_ids < 0 of others.  Counts of ids without a row are halved where it is time
 * for that.  Batches that are ahead are forgotten before, and placed again
 * after it.  Collective. */
ts_err ts_ebc_evict(ts_ebc *, int64_t step, ts_comm *, ts_evicted *out);
/* Ids of one rank's shard of a table, by ascending key, and which of them go:
 * arrays (n), none where the rank has none. */
typedef struct ts_evict_ids {
  int32_t shard, n_shards;
  int64_t n;
  const int64_t *seen, *last; /* as in ts_tbe_ids */
  const float *score;         /* the same; of tables that score alone */
  bool *goes;
} ts_evict_ids;
/* Those that a look at them would evict, of a table with lru, lfu or score that
 * has more ids than it keeps.  Collective. */
ts_err ts_evict_list(const ts_table_config *, ts_evict_ids *, ts_comm *);
/* A dynamic table's ids without those of batches ahead, all ranks': how many,
 * how many of them are new, as a share of the capacity, and how many buckets of
 * its index a find looks at (of some of the ids): on average, and at most by 99
 * of 100. */
typedef struct ts_ids_figures {
  int64_t n_ids, n_new;
  double load, probes, probes_p99;
} ts_ids_figures;
/* The lanes idle, ids are new that batches after number AFTER have brought,
 * batches from FIRST on are ahead (0: none): OUT (n_tables), n_ids < 0 of
 * tables that are not dynamic.  Collective. */
ts_err ts_ebc_ids_figures(ts_ebc *, uint32_t after, uint32_t first, ts_comm *,
                          ts_ids_figures *out);

/* Cached tables: brings the batch's rows into fast memory on LANE, and keeps
 * them there until release; lookup does so itself where it was not done, and
 * backward_end releases.  The host waits for the unpacking. */
ts_err ts_ebc_prefetch(ts_ebc_batch *, ts_lane *);
ts_err ts_ebc_release(ts_ebc_batch *, ts_lane *);
/* Before the lookup, where more than the next batch was prefetched since. */
ts_err ts_ebc_refresh(ts_ebc_batch *, ts_lane *);

/* The host waits for the unpacking: for who may not wait any more at the lookup
 * (graphs), and for who wants to know that nothing was wrong with the ids: DATA
 * where one was not a row, COMM where lengths did not add up, once. */
ts_err ts_ebc_input_wait(ts_ebc_batch *);
/* LANE looks up and output dist begins right after each sharding's lookup.  The
 * host waits for the unpacking, unless it has counted itself what travels
 * (comm.input_dist): then errors of ids are found later (ts_ebc_input_wait, the
 * next input_begin). */
ts_err ts_ebc_lookup(ts_ebc_batch *, ts_lane *);
/* The same in parts: begin, then each sharding (see backward_end) once. */
ts_err ts_ebc_lookup_begin(ts_ebc_batch *, ts_lane *);
ts_err ts_ebc_lookup_sharding(ts_ebc_batch *, int32_t sharding, ts_lane *);
ts_err ts_ebc_output_end(ts_ebc_batch *, ts_lane *compute);
/* Local.  Pointers are fixed once output_end was called, and are device memory;
 * see model/model.h.  Row b of
 * feature f is at emb[f] + b * stride[f]: b is the sample, or with pooling
 * "none" the id in the order of the batch. */
const float *const *ts_ebc_batch_emb(ts_ebc_batch *);
/* Features that an output over items has for its candidates (base/tasks.h) give
 * each row once, and so are their gradients: which ids it is of; NULL: another
 * feature. */
const ts_spread *ts_ebc_batch_spread(const ts_ebc_batch *, int32_t feature);
/* Rows of FEATURE that the model sees. */
int32_t ts_ebc_batch_rows(const ts_ebc_batch *, int32_t feature);
/* GRAD (n_features): places of the gradients that are not over the embeddings,
 * with the same strides, in ROOM, which grows; MEMORY. */
ts_err ts_ebc_batch_apart(ts_ebc_batch *, ts_buffer *room, float **grad);
/* Where the gradients go: over the embeddings. */
float *const *ts_ebc_batch_grad(ts_ebc_batch *);
const int64_t *ts_ebc_batch_stride(ts_ebc_batch *);

/* Collective, Enqueues. */
ts_err ts_ebc_backward_begin(ts_ebc_batch *, ts_lane *compute);
/* Called when the updates of all tables of a sharding (those that one output
 * dist serves) are enqueued: in the same order on all ranks, for each sharding
 * once. */
typedef struct ts_ebc_updated {
  ts_err (*call)(void *arg, int32_t sharding);
  void *arg;
} ts_ebc_updated;
/* THEN may be NULL.  Collective, Enqueues. */
ts_err ts_ebc_backward_end(ts_ebc_batch *, double lr_factor, int64_t pass,
                           const ts_ebc_updated *then, ts_lane *compute);

/* MORE: backward passes begun from here on are those of micro-batches whose
 * step goes on; tables are updated by the first one that is not.  drop forgets
 * what came of the step so far; the lanes are idle. */
void ts_ebc_accumulate(ts_ebc *, bool more);
void ts_ebc_drop(ts_ebc *);

/* Calls FN for every shard that this rank holds: plan shard, group and the
 * table's number in it.  For checkpoints and reports.  Local. */
typedef ts_err (*ts_ebc_shard_fn)(void *arg, int32_t table_id, const ts_shard *,
                                  ts_tbe *, int32_t t);
ts_err ts_ebc_each_shard(ts_ebc *, ts_ebc_shard_fn, void *arg);

/* Around reading and writing whole tables (ts_tbe_rows); the lanes are idle.
 * Local. */
ts_err ts_ebc_flush(ts_ebc *);
ts_err ts_ebc_reload(ts_ebc *);

/* Of tables with `ema`.  look_at: lookups from here on give rows' means at the
 * end of pass AT, 0: rows.  take: rows become them, between flush and reload;
 * the host waits for LANE.  Local. */
void ts_ebc_look_at_averages(ts_ebc *, int64_t at);
ts_err ts_ebc_take_averages(ts_ebc *, int64_t at, ts_lane *lane);

/* This rank's tables in slow memory; the lanes are idle. */
typedef struct ts_ebc_tiers {
  double hold_s; /* spent on bringing rows into fast memory */
  int64_t fast_bytes, slow_bytes, scratch_bytes;
  int64_t n_locks; /* on lines, now */
} ts_ebc_tiers;
/* Adds what was counted since creation to COUNT (tables of the deck), and each
 * table's part of hold_s to SECONDS, unless COUNT is NULL. */
ts_ebc_tiers ts_ebc_tiers_of(const ts_ebc *, ts_tier_count *count,
                             double *seconds);

/* Since creation, on this rank. */
typedef struct ts_ebc_stat {
  int64_t n_ids;    /* looked up */
  int64_t n_copied; /* ids written into messages: each once per shard */
  int64_t input_bytes, output_bytes; /* sent to other ranks */
  /* Batches whose ids were sent, and how often input dist waited for the
   * network: once for each, and again where ranks met sizes that they had no
   * room for. */
  int64_t n_inputs, n_input_rounds;
  int64_t local_bytes; /* weights and state held */
  /* Output dist's bytes, to this rank, too: as f32, and as coded. */
  int64_t forward_raw, forward_coded, backward_raw, backward_coded;
  /* Input dist's: with 8 bytes per id and 4 per length, weight and position,
   * and as sent. */
  int64_t input_raw, input_coded;
  /* Features of data.dedup and sequences: bags and ids read, and sent. */
  int64_t n_bags_in, n_bags_sent, n_ids_in, n_ids_sent;
} ts_ebc_stat;
ts_ebc_stat ts_ebc_stat_of(const ts_ebc *);
/* Counts from STAT on: what came in between is forgotten. */
void ts_ebc_stat_put(ts_ebc *, const ts_ebc_stat *stat);
