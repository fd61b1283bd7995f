/* sharding.h - what a sharding type is; private to shard/.
 *
 * A sharding type (one file each, listed in base/kinds.h) says where shards
 * are placed, what shape they have, and which output dist brings pooled
 * embeddings back (output_*.c; several types share one, which knows what it
 * costs).
 * sharding_impl.h, ebc_batch.h and message.h tell what is made of the tables
 * of a type.  Functions are Local unless they say Collective or Enqueues. */
#pragma once

#include "base/kinds.h"
#include "shard/codec.h"
#include "shard/ebc.h"

typedef struct ts_sharding ts_sharding;
typedef struct ts_sharding_batch ts_sharding_batch;
struct ts_cost; /* shard/cost.h */
struct ts_load;
struct ts_plan_memory;

/* ---- types --------------------------------------------------------------- */

/* The input of placement.  A type picks the ranks (or the node) with the least
 * load, the lowest among equals; the caller adds to the loads. */
typedef struct ts_placement {
  const ts_nodes *nodes;
  const double *load; /* (n_ranks), in any unit */
  int32_t min_column; /* least columns of a column shard */
  int32_t n_cols;     /* columns of each, 0: the smallest that is allowed */
} ts_placement;

/* How pooled embeddings come back to the samples' ranks.  begin enqueues on
 * the comm, end makes the compute lane wait (and finish what is left). */
typedef struct ts_output_dist {
  const char *name;
  /* Number of blocks, the block that holds a shard's piece, and the block
   * that RANK writes; all NULL: there is one. */
  int (*n_blocks)(const ts_ebc *);
  int (*block_of)(const ts_ebc *, const ts_shard *);
  int (*written_by)(const ts_ebc *, int rank);
  ts_err (*create)(ts_sharding *); /* comms; may be NULL */
  /* Room on the wire for both directions, before anything of the batch is
   * enqueued; may be NULL. */
  ts_err (*reserve)(ts_sharding_batch *);
  /* Bytes that the sums of a batch keep aside in its comms; may be NULL. */
  ts_err (*scratch)(ts_sharding_batch *);
  /* Bytes that this rank sends forward with a codec; NULL: its sections. */
  int64_t (*bytes)(const ts_sharding_batch *, ts_codec);
  /* The order in which the sections of ranks lie in what is written: NULL
   * ascending. */
  void (*order)(const ts_sharding *, int *ranks /* (W) */);
  /* The planner's estimate where there are several ranks; NULL: nothing.
   * Adds to a shard's load the time and bytes of the FLOATS numbers that are
   * pooled from it for the global batch. */
  void (*cost)(struct ts_load *, const struct ts_cost *, double floats);
  /* Adds what each step has once, however many tables there are: latencies. */
  void (*cost_once)(struct ts_load *, const struct ts_cost *);
  /* Adds what a shard's rank keeps of them beside the sections. */
  void (*storage)(struct ts_plan_memory *, const struct ts_cost *,
                  double floats);
  ts_err (*forward_begin)(ts_sharding_batch *, ts_lane *);
  ts_err (*forward_end)(ts_sharding_batch *, ts_lane *);
  ts_err (*backward_begin)(ts_sharding_batch *, ts_lane *);
  ts_err (*backward_end)(ts_sharding_batch *, ts_lane *);
} ts_output_dist;

extern const ts_output_dist ts_output_local, ts_output_all_to_all,
    ts_output_reduce_scatter, ts_output_two_stage;

/* Which shards have to be on the ranks of one node. */
typedef enum {
  TS_NODE_ANY,   /* nothing */
  TS_NODE_TABLE, /* all shards of a table */
  TS_NODE_SLICE  /* those of a slice of the columns */
} ts_node_rule;

typedef struct ts_sharding_ops {
  const char *name;
  /* Rows are on some ranks only: ids travel to them.  Else each rank has all
   * of them and looks up its own samples; only gradients travel. */
  bool remote;
  bool split_rows;    /* a bag's ids go to the shards that hold their rows */
  bool split_columns; /* shards are equal slices of the columns, or such
                         slices cut by rows */
  ts_node_rule on_node;
  /* sharding.plan = "by_size" turns to the lowest where `allow` leaves out
   * what it would choose. */
  int by_size;
  const ts_output_dist *output;   /* of pooled embeddings */
  const ts_output_dist *sequence; /* of embeddings per id; NULL: none */
  /* Fills PLAN's shards for TABLE (table.ranks honoured, see
   * doc/sharding.texi); DECK errors name the table. */
  ts_err (*place)(ts_table_plan *, const ts_table_config *,
                  const ts_placement *);
} ts_sharding_ops;

/* NULL: TS_SHARD_AUTO, or none. */
const ts_sharding_ops *ts_sharding_find(ts_shard_kind);
/* Dynamic tables are cut by their ids' keys, or not at all. */
static inline bool ts_sharding_takes_dynamic(const ts_sharding_ops *o) {
  return o->remote && !o->split_columns;
}
/* A table is one shard. */
static inline bool ts_sharding_is_whole(const ts_sharding_ops *o) {
  return o->remote && !o->split_rows && !o->split_columns;
}

/* Bags of tables cut so are spread over the same shards of rows; or of both go
 * whole. */
bool ts_sharding_same_parts(const ts_table_plan *, const ts_table_plan *);
/* A feature in both has the same ids in both, as they travel. */
bool ts_ids_alike(const ts_table_config *, const ts_table_config *);

/* ---- placement ----------------------------------------------------------- */

/* place.c: parts of placement that types share.  Each adds shards to the
 * plan's. */
/* First row of the K-th of N shards of rows.  Each shard has ceil(rows / n),
 * the last ones less or none.  Shards of a dynamic table all have some, because
 * the parts of its ids are dealt to all of them. */
int64_t ts_place_first_row(const ts_table_config *, int k, int n);
/* Columns [col0, col0 + n_cols) cut over RANKS by rows, as that says. */
ts_err ts_place_rows(ts_table_plan *, const ts_table_config *, const int *ranks,
                     int n_ranks, int32_t col0, int32_t n_cols);
/* Columns of each column shard (DECK error: `ranks` do not divide them). */
ts_err ts_place_columns(int32_t *n_cols, const ts_table_config *,
                        const ts_placement *);
/* The N least loaded of MEMBER's ranks, ascending by load; N may be larger
 * than n_members: then some come again. */
ts_err ts_place_pick(int *ranks, int n, const int *member, int n_members,
                     const ts_placement *);
/* Column shards over MEMBER's ranks, `ranks` honoured. */
ts_err ts_place_slices(ts_table_plan *, const ts_table_config *,
                       const int *member, int n_members, const ts_placement *);
int ts_place_node(const ts_placement *); /* the node with the least load */
/* DECK errors: a rank that is there twice; ranks of several nodes. */
ts_err ts_place_once(const ts_table_config *);
ts_err ts_place_one_node(int *node, const ts_table_config *, const ts_nodes *);
/* Bytes of a table's weights and optimizer state, and of a shard's; id_bytes:
 * what each row of a dynamic table takes beside them: index and counts (else
 * 0), which are never in slow memory. */
int64_t ts_place_id_bytes(const ts_table_config *);
int64_t ts_table_bytes(const ts_table_config *);
int64_t ts_shard_bytes(const ts_table_config *, const ts_shard *);
