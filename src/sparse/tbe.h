/* tbe.h - table-batched embeddings: a group of table shards on one rank that
 * share dim, dtype, pooling, optimizer kind and sharding, looked up in one
 * call and updated in one pass.
 * Functions are Local unless they say Collective or Enqueues. */
#pragma once

#include "base/config.h"
#include "runtime/device.h"
#include "runtime/staging.h"
#include "kernel_table.h"
#include "sparse/row_optim.h"
#include "sparse/tier.h"

typedef struct ts_tbe ts_tbe;

/* One table's shard in the group: rows [first_row, first_row + n_rows),
 * columns [col0, col0 + n_cols); all of a group have the same n_cols.  Of a
 * dynamic table n_rows are those of ts_tbe_rows_of, which ids get in any
 * order, first_row says nothing, and its ids are those of parts
 * (sparse/index.h) [first_part, first_part + n_parts). */
typedef struct ts_tbe_table {
  const ts_table_config *config; /* must outlive the group; checked */
  int32_t table_id;              /* index of the table in the deck */
  int64_t first_row, n_rows;
  int32_t col0, n_cols;
  int32_t first_part, n_parts;
} ts_tbe_table;

typedef struct ts_tbe_spec {
  ts_tbe_table *tables; /* (n_tables), copied */
  int32_t n_tables;
  const int32_t *feature_table; /* (n_features) table of each, copied */
  int32_t n_features;
  bool mean; /* divide by bag length here (not where shards hold parts) */
  uint64_t seed;
  double ema;                /* d of rows' means, of tables with `ema` */
  const char *tier_dir;      /* of tables whose slow tier is a file */
  const ts_row_optim *optim; /* what states rows have, where others update
                                them (must stay); NULL: the tables' own */
} ts_tbe_spec;

/* A cached group's state for one batch, from hold to release. */
typedef struct ts_tbe_hold {
  ts_buffer slots; /* (N) uint32: where each id's row lies */
  bool held;       /* a prefetch was asked for, a release was not */
  bool in_place;   /* slots are those of held rows; the lanes' own */
} ts_tbe_hold;

/* Entries of a batch sorted by row: device memory of the batch, so that they
 * can be made while another one's backward pass runs. */
typedef struct ts_tbe_sorted {
  uint32_t *keys, *order; /* (N) */
  uint32_t *runs;         /* (N + 1) as in ts_sort_args */
  uint32_t *bag_of;       /* (N) where ids have weights */
  float *bag_scale;       /* (bags) */
} ts_tbe_sorted;

/* Bags of the group, feature-major: feature f has the bags
 * [bag_start[f], bag_start[f + 1]), as many as it likes.  Arrays are owned by
 * the caller until the batch is done. */
typedef struct ts_tbe_input {
  const int64_t *bag_start; /* (F + 1), host memory */
  const int64_t *offsets;   /* (bags + 1) device memory, like the rest */
  const int64_t *at;        /* (bags) where a bag's pooled row starts in the
                               output, and its gradient: floats */
  const int32_t *rows;      /* (N) row within the table's shard */
  const float *weights;     /* (N) or NULL */
  int64_t n_ids;            /* N < 2^32 */
  ts_tbe_hold *hold;        /* of cached groups; else NULL */
  ts_tbe_sorted *sorted;    /* NULL: sorted by the backward pass, in the
                               group's own scratch */
} ts_tbe_input;

/* create allocates weights and state; init draws initial weights that depend
 * on (seed, table, global row, column) only, state 0.  Local. */
ts_err ts_tbe_create(ts_tbe **, ts_device *, const ts_kernels *,
                     const ts_tbe_spec *);
ts_err ts_tbe_init(ts_tbe *);
void ts_tbe_destroy(ts_tbe *);

/* Dynamic tables (tbe_dynamic.c).  rows_of: rows of memory for a shard that is
 * to hold N_ROWS of TABLE's: of dynamic ones more, as ids are not dealt evenly,
 * and row 0, which is 0 and nobody's; else N_ROWS.
 *
 * come: BATCH, a number from 1, that is learnt from, comes; AGAIN: the last one
 * was of the same step.  place: ROWS (n) of IDS (n int64 at any address) of the
 * group's FEATURE.  Of a BATCH that has come, ids that have none get one, where
 * they are admitted (sparse/admit.h), and their initial weights by (seed,
 * table, id, column) alone; NOMEM where none is left.  Others have row 0.  Of
 * BATCH 0 so have all that have no row, or have it from a batch from AHEAD on
 * (0: none is).  place_parts: the same of the ids of PARTS, ids of a part and
 * ROWS being a discrete device's memory, on which place is not for use; a
 * part's table is given as a feature.  parts: *PARTS, room for N, the group's,
 * for the next place_parts.  All only in tasks of the data lane.
 *
 * forget: batches from FIRST on are as if they had not come: ids that have
 * their rows from them lose them.  The lanes are idle.  MEMORY. */
int64_t ts_tbe_rows_of(const ts_table_config *, int64_t n_rows);
bool ts_tbe_is_dynamic(const ts_tbe *);
void ts_tbe_come(ts_tbe *, uint32_t batch, bool again);
ts_err ts_tbe_place(ts_tbe *, int32_t feature, int32_t *rows, const void *ids,
                    int64_t n, uint32_t batch, uint32_t ahead);
struct ts_mirror_part; /* sparse/mirror.h */
ts_err ts_tbe_parts(ts_tbe *, int64_t n, struct ts_mirror_part **parts);
ts_err ts_tbe_place_parts(ts_tbe *, struct ts_mirror_part *parts,
                          int32_t n_parts, int32_t *rows, uint32_t batch,
                          uint32_t ahead);
ts_err ts_tbe_forget(ts_tbe *, uint32_t first);
/* Memory of tables that grow.  give: rows [0, N) of table T's shard have some,
 * before they are written; once that is done, as many times more as the deck
 * says.  Work under way does not mind.  NOMEM.  given: how many have it. */
ts_err ts_tbe_give(ts_tbe *, int32_t t, int64_t n);
int64_t ts_tbe_given(const ts_tbe *, int32_t t);
/* The ids of a table, with what is known of those that have a row, by rows. */
typedef struct ts_tbe_ids {
  struct ts_index *index;
  struct ts_admit *admit; /* NULL: all are admitted */
  uint32_t *born;         /* the batch that brought it; 0: a checkpoint */
  uint32_t *seen, *last;  /* how many steps it was met in, and the last one's
                             number; NULL where none is evicted */
  float *score; /* sum of the norms of their gradients (sparse/row_optim.h);
                   NULL where they don't decide */
} ts_tbe_ids;
/* For checkpoints and eviction, the lanes idle: of table T of the group. learn:
 * IDS (n) alone have rows, from 1 on, of batch 0.  On a discrete device seen,
 * last and score are copies of what it counts: true after fetch, and who has
 * written them sends them; nothing to do on others. */
ts_err ts_tbe_fetch_counts(ts_tbe *, int32_t t);
ts_err ts_tbe_send_counts(ts_tbe *, int32_t t);
/* Ids have lost their rows: lines of cached groups, of which none is held, are
 * written back and given up, as others will have the rows.  The lanes are idle.
 */
ts_err ts_tbe_drop_lines(ts_tbe *);
ts_tbe_ids ts_tbe_ids_of(ts_tbe *, int32_t t);
ts_err ts_tbe_learn(ts_tbe *, int32_t t, const int64_t *ids, int64_t n);

/* Scratch of the backward pass comes from POOL, which is open: for N_IDS ids
 * in N_BAGS bags, WEIGHTED or not.  N_SUMS: of ts_tbe_reduce's or _gather's
 * sums, distinct rows at most; N_ALL: entries of all messages that are applied.
 * Local, once. */
typedef struct ts_tbe_expected {
  bool ahead; /* batches bring their ids sorted */
  int64_t n_ids, n_bags, n_sums, n_all;
  bool weighted;
} ts_tbe_expected;
ts_err ts_tbe_expect(ts_tbe *, ts_pool *, const ts_tbe_expected *);
/* Bytes that it takes for rows of DIM, for who plans a group.  Local. */
int64_t ts_tbe_scratch_bytes(const ts_tbe_expected *, int32_t dim);

/* Lookups that are enqueued from here on give means of rows (tables with
 * `ema`) as they are at the end of pass AT, of those that were made; 0: rows.
 */
void ts_tbe_look_at_averages(ts_tbe *, int64_t at);
/* Rows become their means at the end of pass AT, rounded to nearest where they
 * are of 16 bits: for who trains no more; cached tiers are flushed
 * before and reloaded after it.  Enqueues. */
ts_err ts_tbe_take_averages(ts_tbe *, int64_t at, ts_lane *);

/* Writes the bags' rows of OUT.  Enqueues. */
ts_err ts_tbe_forward(ts_tbe *, float *out, const ts_tbe_input *, ts_lane *);

/* Cached tiers: brings INPUT's rows into fast memory and keeps them there
 * until release, which goes after the batch's last use; forward does so
 * itself where it was not done.  Nothing to do where rows are resident, or
 * are held (not held) already.  Enqueue. */
ts_err ts_tbe_prefetch(ts_tbe *, const ts_tbe_input *, ts_lane *);
ts_err ts_tbe_release(ts_tbe *, const ts_tbe_input *, ts_lane *);
/* Before the forward pass of a batch, where other batches were held and
 * updated since it was.  Enqueues. */
ts_err ts_tbe_refresh(ts_tbe *, const ts_tbe_input *, ts_lane *);

/* Sorts INPUT's ids by row into its own room, which takes nothing but ids; the
 * backward pass comes after it.  Only in tasks of a lane, always the same. */
ts_err ts_tbe_sort_ahead(ts_tbe *, const ts_tbe_input *);
/* Fused backward: sorts the ids by row, sums duplicates in a fixed order,
 * updates each row once.  GRAD has forward's layout.  LR_FACTOR: of the
 * schedule; PASS: number of this backward pass, from 1.  Enqueues. */
ts_err ts_tbe_backward(ts_tbe *, const float *grad, const ts_tbe_input *,
                       double lr_factor, int64_t pass, ts_lane *);

/* Micro-batches but the last: the sums of their rows' gradients are kept, and
 * the next backward, gather or reduce takes them in.  Enqueues.  drop forgets
 * them; the lane is idle. */
ts_err ts_tbe_keep(ts_tbe *, const float *grad, const ts_tbe_input *,
                   ts_lane *);
void ts_tbe_drop(ts_tbe *);

/* Gradient by each id's weight: OUT (N) = the dot product of its row, as it
 * is when the lane gets here, and its bag's gradient (times the bag's share,
 * where bags are means).  Goes before the backward pass.  Enqueues. */
ts_err ts_tbe_weight_grad(ts_tbe *, float *out, const float *grad,
                          const ts_tbe_input *, ts_lane *);

/* The same in parts, for groups that hold some columns of a row and whose
 * optimizer needs sums over all of them (tbe_columns.c).  gather sums each
 * distinct row's gradients; after it the group's rows and statistics can be
 * asked for on the lane.  stage I runs round I of the optimizer: statistics
 * hold what it needs and then this shard's part.  finish updates the rows.
 * Enqueue. */
ts_err ts_tbe_gather(ts_tbe *, const float *grad, const ts_tbe_input *,
                     ts_lane *);
ts_err ts_tbe_stage(ts_tbe *, int round, double lr_factor, int64_t pass,
                    ts_lane *);
ts_err ts_tbe_finish(ts_tbe *, double lr_factor, int64_t pass, ts_lane *);
/* Only in tasks of the lane: statistics (distinct rows, TS_ROW_STATS_MAX) in
 * device memory, by ascending keys; AT[i] = how many of the rows have keys
 * below KEYS[i], both host memory.  key: of ROW, which lies in the shard or is
 * its end, of the whole table T. */
float *ts_tbe_stats(ts_tbe *);
ts_err ts_tbe_find(ts_tbe *, const int64_t *keys, int64_t *at, int32_t n);
int64_t ts_tbe_key(const ts_tbe *, int32_t t, int64_t row);

/* The two halves for replicated (data_parallel) groups.  reduce: sums of the
 * distinct rows that this rank touched, keys ascending, as a message of
 * n * (4 + 4 * dim) bytes [keys | sums] at *MSG (the group's own memory on
 * the device, valid until the next reduce), its size at *MSG_BYTES: both are
 * written by the lane.  N_KNOWN: n, where the caller knows it, so that the host
 * need not wait for it; else -1.  apply: MSG of W ranks one after the other,
 * msg_bytes[r] each (read when the task runs), in device memory:
 * rows' sums are added in rank order, then one update a row.  Enqueue. */
ts_err ts_tbe_reduce(ts_tbe *, const void **msg, int64_t *msg_bytes,
                     const float *grad, const ts_tbe_input *, int64_t n_known,
                     ts_lane *);
ts_err ts_tbe_apply(ts_tbe *, const void *const *msg, const int64_t *msg_bytes,
                    int n_ranks, double lr_factor, int64_t pass, ts_lane *);

/* For checkpoints (the lanes must be idle): table T of the group, state -1
 * for the weights: the rows themselves, on devices with memory of their own
 * there (runtime/staging.h brings them).  They are true after flush, and who
 * has written them calls reload: cached tiers have newer ones, or older. */
int32_t ts_tbe_n_tables(const ts_tbe *);
const ts_tbe_table *ts_tbe_table_of(const ts_tbe *, int32_t t);
const ts_row_optim *ts_tbe_optim(const ts_tbe *);
void *ts_tbe_rows(ts_tbe *, int32_t t, int state, int32_t *cols,
                  ts_dtype *dtype);
ts_err ts_tbe_flush(ts_tbe *);
/* tbe_touched.c: which rows are updated, from track on, or from forget on; the
 * lanes are idle.  touched: *ROWS (*n, owned by the caller) ascend, those of
 * rows [row0, row0 + n_rows) of table T's shard, counted from row0; never one
 * too few.  take: these rows of STATE (-1: weights), in the host's memory, to
 * OUT (n, cols of that state); true after flush, as above. */
ts_err ts_tbe_track(ts_tbe *, ts_staging *);
ts_err ts_tbe_forget_touched(ts_tbe *, ts_staging *);
ts_err ts_tbe_touched(ts_tbe *, ts_staging *, int32_t t, int64_t row0,
                      int64_t n_rows, uint32_t **rows, int64_t *n);
ts_err ts_tbe_take(ts_tbe *, ts_staging *, void *out, int32_t t, int state,
                   int64_t row0, const uint32_t *rows, int64_t n);
/* Every update is of all rows, and by others (shard/dense_rows.c). */
void ts_tbe_all_change(ts_tbe *);
ts_err ts_tbe_reload(ts_tbe *);
int64_t ts_tbe_bytes(const ts_tbe *); /* weights and state */
bool ts_tbe_is_cached(const ts_tbe *);
/* False where the group's tier has no figures. */
bool ts_tbe_figures(const ts_tbe *, ts_tier_figures *);
