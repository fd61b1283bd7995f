/* sharding.h - what a sharding type is; private to shard/.
 *
 * One file per type (table_wise.c, row_wise.c, data_parallel.c), registered
 * in sharding.c.  A type says where shards are placed, whether the ids of a
 * bag are spread over its shards, and how pooled embeddings travel back.
 * All tables of one type form a lot: their groups write one output matrix,
 * which one collective carries. */
#ifndef TS_SHARD_SHARDING_H
#define TS_SHARD_SHARDING_H

#include "shard/ebc.h"

typedef struct ts_lot ts_lot;
typedef struct ts_lot_flight ts_lot_flight;

/* What placement goes by.  A type picks the ranks (or the node) with the
 * least load, the lowest among equals; whoever asks adds to the loads. */
typedef struct ts_placement {
  const ts_nodes *nodes;
  const double *load; /* (n_ranks), in any unit */
  int32_t min_column; /* least columns of a column shard */
  int32_t n_cols;     /* columns of each, 0: the smallest that is allowed */
} ts_placement;

typedef struct ts_sharding_ops {
  const char *name;
  ts_shard_kind kind;
  bool remote;    /* ids travel: takes part in input dist */
  bool bucketize; /* a bag's ids go to the shards that hold their rows */
  /* Fills PLAN's shards for TABLE (table.ranks honoured, see doc/sharding);
   * DECK errors name the table. */
  ts_err (*place)(ts_table_plan *, const ts_table_config *,
                  const ts_placement *);
  /* Widths of the lot's blocks and columns of its features. */
  ts_err (*layout)(ts_lot *);
  /* Sizes of this flight's messages, set on the host once the batch sizes of
   * all ranks are known. */
  void (*resize)(ts_lot_flight *);
  /* Output dist and its transpose; begin enqueues on the comm, end makes the
   * compute lane wait (and finish). */
  ts_err (*forward_begin)(ts_lot_flight *, ts_lane *);
  ts_err (*forward_end)(ts_lot_flight *, ts_lane *);
  ts_err (*backward_begin)(ts_lot_flight *, ts_lane *);
  /* Ends with the fused backward of the lot's groups enqueued. */
  ts_err (*backward_end)(ts_lot_flight *, double lr_factor, int64_t pass,
                         ts_lane *);
} ts_sharding_ops;

const ts_sharding_ops *ts_sharding_find(ts_shard_kind); /* NULL: none */

/* A feature of a lot, on whichever rank. */
typedef struct ts_lot_feature {
  int32_t feature; /* in the deck's order, over all tables */
  int32_t table;   /* table_id */
  int32_t dim;
  bool mean;
  int32_t block; /* of the received matrix: the owner's rank, or 0 */
  int32_t col;   /* column within its block */
} ts_lot_feature;

/* One TBE group of a lot on this rank. */
typedef struct ts_lot_group {
  ts_tbe *tbe;
  int32_t n_features;
  int32_t *lot_feature; /* (n_features) index into lot->features */
  int32_t *route;       /* (n_features) route that feeds it, among those to
                           this rank; set once routes are known */
  bool weighted;
} ts_lot_group;

struct ts_lot {
  const ts_sharding_ops *ops;
  ts_ebc *ebc;
  ts_comm *comm; /* NULL where nothing travels */
  ts_lot_feature *features;
  int32_t n_features;
  int32_t *block_width; /* (n_blocks) floats per sample of each block */
  int32_t n_blocks;
  int32_t width;     /* of all blocks */
  int32_t own_width; /* of the matrix that this rank's groups write */
  ts_lot_group *groups;
  int32_t n_groups;
};

/* What a lot needs for one batch. */
struct ts_lot_flight {
  ts_lot *lot;
  ts_flight *flight;
  ts_tbe_input *inputs;                /* (n_groups) */
  ts_buffer *offsets, *rows, *weights; /* (n_groups) behind the inputs */
  ts_buffer out, grad_out; /* (bags, own_width) that the groups write/read */
  ts_buffer emb, grad;     /* blocks of (B, block_width) for the model */
  float **emb_ptr, **grad_ptr; /* (n_features) into the blocks */
  int64_t *send, *recv;        /* (W) bytes or elements of the collective */
  float *inverse; /* (n_features, B) 1 / bag length, for means over shards */
  ts_token token;
  /* data_parallel: distinct rows of all groups, sent to everyone. */
  const void **message;   /* (n_groups) */
  int64_t *message_bytes; /* (n_groups) */
  ts_buffer bundle;
  int64_t *bundle_bytes; /* (W) */
  ts_exchange exchange;
  const void **arrived;   /* (n_groups, W) */
  int64_t *arrived_bytes; /* (n_groups, W) */
};

struct ts_ebc {
  const ts_config *config;
  const ts_plan *plan;
  ts_world *world;
  ts_device *device;
  const ts_kernels *kernels;
  ts_comm *input_comm;
  int rank, n_ranks;
  int32_t n_features;
  int32_t *feature_table; /* (n_features) table_id */
  ts_lot *lots;
  int32_t n_lots;
  struct ts_route *routes; /* sorted by rank */
  int32_t n_routes;
  int32_t *route_start; /* (W + 1) routes to each rank */
  ts_ebc_stat stat;
};

/* One way of ids: those of FEATURE whose rows lie in [row0, row0 + n_rows)
 * go to RANK, where they are feature SLOT of GROUP of LOT. */
typedef struct ts_route {
  int32_t feature, table, rank;
  int64_t row0, n_rows;
  bool bucketize, weighted;
  int32_t lot, group, slot; /* valid on RANK only, -1 elsewhere */
} ts_route;

struct ts_flight {
  ts_ebc *ebc;
  int32_t batch_max;
  const ts_kjt *kjt;
  ts_status own;
  ts_err_record fault; /* what own.err says, where packing found it */
  ts_status *statuses; /* (W) */
  int32_t *batch;      /* (W) samples of each rank */
  int32_t n, n_global; /* samples here and everywhere */
  /* input dist */
  ts_buffer send;
  int64_t *send_bytes, *recv_bytes; /* (W) */
  ts_exchange exchange;
  ts_token token;
  ts_event unpacked;
  ts_lot_flight *lots; /* (n_lots) */
  const float **emb;   /* (n_features) */
  float **grad;
  int64_t *stride;
  int64_t *route_count; /* (n_routes) ids of each, while packing */
};

/* How a section of a message gives the lengths of its bags; a section's
 * entry in the message's table is n_ids << TS_FORM_BITS | form. */
enum { TS_FORM_ONE, TS_FORM_BYTES, TS_FORM_INTS, TS_FORM_BITS = 2 };

/* Bytes of the lengths of BATCH bags, padded to 4. */
static inline int64_t ts_form_bytes(int form, int32_t batch) {
  if (form == TS_FORM_ONE) return 0;
  return form == TS_FORM_BYTES ? ((int64_t)batch + 3) / 4 * 4
                               : 4 * (int64_t)batch;
}

/* input_dist.c, input_unpack.c: tasks of the data lane. */
ts_err ts_input_pack(void *flight /* ts_flight ** */, ts_lane *);
ts_err ts_input_statuses(ts_flight *); /* after the exchange, on the host */
ts_err ts_input_unpack(void *flight /* ts_flight ** */, ts_lane *);

/* lot.c */
ts_err ts_lot_create(ts_lot *, ts_ebc *, const ts_sharding_ops *);
void ts_lot_reset(ts_lot *);
ts_err ts_lot_flight_create(ts_lot_flight *, ts_lot *, ts_flight *);
void ts_lot_flight_reset(ts_lot_flight *);
ts_err ts_lot_forward(ts_lot_flight *, ts_lane *); /* all groups */
ts_err ts_lot_backward(ts_lot_flight *, double lr_factor, int64_t pass,
                       ts_lane *);
/* Layout of types whose samples have all features in one block. */
ts_err ts_lot_layout_whole(ts_lot *);
/* Waits for gradients that a collective brings, then the fused backward. */
ts_err ts_lot_backward_end(ts_lot_flight *, double lr_factor, int64_t pass,
                           ts_lane *);
/* Sets emb_ptr and grad_ptr for B samples: block after block. */
void ts_lot_point(ts_lot_flight *, int32_t batch);

/* place.c: parts of placement that types share.  Each adds shards to the
 * plan's. */
/* Columns [col0, col0 + n_cols) cut over RANKS by rows: ceil(rows / n) each,
 * the last ones less. */
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
/* Bytes of a table's weights and optimizer state, and of a shard's. */
int64_t ts_table_bytes(const ts_table_config *);
int64_t ts_shard_bytes(const ts_table_config *, const ts_shard *);

#endif
