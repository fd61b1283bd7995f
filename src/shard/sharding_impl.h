/* sharding_impl.h - the tables of one type and what they need for a batch;
 * private to shard/.
 *
 *   sharding      the tables of one type (sequences and weighted ones apart):
 * their groups write one matrix, which one output dist carries view     a
 * feature as the model sees it: (bags, dim) piece    the columns of a view that
 * travel together: one per column shard (of sequences cut by rows: one per row
 * shard) block    what arrives together: (B, width) of all pieces whose bags
 * are samples, then (bags, n_cols) of each piece with bags of its own
 *
 * A feature is "variable" when it has bags of its own number: distinct bags
 * (data.dedup) or distinct ids (sequences); see bags.c.
 * Functions are Local unless they say Collective or Enqueues. */
#pragma once

#include "shard/sharding.h"

typedef struct ts_dense_rows ts_dense_rows;

typedef struct ts_view {
  int32_t feature; /* in the deck's order, over all tables */
  int32_t table;   /* table_id */
  int32_t dim;
  int32_t variable; /* number among the variable features, -1: samples */
  bool sequence;    /* one output row per id */
  bool mean;        /* of a bag over row shards: divided here, after the sum */
  bool assembled;   /* gathered into a matrix of its own, not seen in place */
} ts_view;

typedef struct ts_piece {
  int32_t view, feature, table;
  int64_t row0, n_rows; /* of sequences cut by rows; else the whole table */
  int32_t part;         /* number of the row shard, of such sequences */
  int32_t col0, n_cols;
  int32_t block;
  int32_t col; /* in the block's matrix; -1: variable, after the matrix */
} ts_piece;

/* One TBE group of a sharding on this rank. */
typedef struct ts_sharding_group {
  ts_tbe *tbe;
  int32_t n_slots;
  int32_t *piece; /* (n_slots) */
  int32_t *route; /* (n_slots) route that feeds it, among those to this rank;
                     set once routes are known */
  bool weighted;
  bool positions;       /* weights come from the ids' places in their bags */
  bool columns;         /* of rows that other shards hold the rest of */
  ts_dense_rows *dense; /* trained by the deck's optimizer; NULL: fused */
} ts_sharding_group;

struct ts_sharding {
  const ts_sharding_ops *ops;
  const ts_output_dist *output;
  ts_ebc *ebc;
  bool sequence, weighted;
  bool travels; /* ids go to the ranks of their rows: not those of replicas, nor
                   any on one rank, which has all rows whole (plan_check.c) */
  bool late;    /* has tables of optimizer "none", updated after all others */
  ts_comm *comm, *node_comm; /* NULL where nothing travels */
  ts_comm *back_comm; /* gradients': they never wait behind the embeddings of
                         the next batch */
  ts_rooms rooms;     /* of comm's exchanges */
  ts_view *views;
  int32_t n_views;
  ts_piece *pieces; /* by table, column, row, feature */
  int32_t n_pieces;
  int32_t *block_width; /* (n_blocks) floats per sample in its matrix */
  int32_t n_blocks, own_block;
  bool holes; /* pieces of own_block that no group of this rank writes */
  ts_sharding_group *groups;
  int32_t n_groups;
  int32_t first_replica; /* of its groups among those that heads tell of */
  struct ts_column_stats *columns; /* column_links.c; NULL: not needed */
};

/* A sharding's part of one batch in flight. */
struct ts_sharding_batch {
  ts_sharding *sharding;
  ts_ebc_batch *ebc_batch;
  ts_tbe_input *inputs;          /* (n_groups) */
  ts_tbe_hold *holds;            /* (n_groups) of cached ones */
  ts_tbe_sorted *sorted;         /* (n_groups) */
  struct ts_unpack_args *unpack; /* (n_groups) what makes them */
  /* (n_groups) behind the inputs; starts are the host's */
  ts_buffer *starts, *offsets, *at, *rows, *weights;
  ts_buffer *positions;    /* uint16 of each id, of groups that have them */
  ts_buffer *weight_grads; /* f32, theirs, too */
  /* behind sorted */
  ts_buffer *keys, *order, *runs, *bag_of, *bag_scale;
  /* Geometry of this batch (geometry.c); W = ranks, P = pieces. */
  int32_t *count;    /* (W, P) bags of each rank's part of a piece */
  int64_t *section;  /* (W) start of a rank's part of what is written */
  int64_t *sizes;    /* (W) floats of it */
  int64_t *write_at; /* (P, W) start of each piece in it; own_block's */
  int64_t *block_at; /* (n_blocks + 1) start of each block that arrives */
  int64_t *piece_at; /* (P) start of each piece in what arrives */
  int64_t n_written; /* floats in out */
  /* Gradients take the place of the embeddings that they are of: the model
   * reads a sample's before it writes the other. */
  ts_buffer out;   /* what the groups write */
  ts_buffer emb;   /* blocks as they arrive */
  ts_buffer views; /* assembled views */
  float **emb_ptr; /* (n_views) */
  int64_t *stride; /* (n_views) floats from row to row */
  float *inverse;  /* (n_views, batch_max) 1 / bag length, of means; device
                      memory; NULL where shards make none */
  ts_buffer inverse_room;
  /* output dist */
  int64_t *send, *recv; /* (W) bytes or elements of the collective */
  ts_buffer wire_send, wire_recv, relay; /* encoded; between two stages */
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

/* ---- what is done with them ---------------------------------------------- */

/* sharding_tables.c: views, pieces and groups; N_VIEWS 0 where the plan has
 * none. */
ts_err ts_sharding_create(ts_sharding *, ts_ebc *, const ts_sharding_ops *,
                          bool sequence, bool weighted);
void ts_sharding_reset(ts_sharding *);
/* This rank's shard for PIECE, NULL: none. */
const ts_shard *ts_sharding_own_shard(const ts_sharding *, const ts_piece *);

/* dense_rows.c: tables of optimizer "none".  create before the group, attach
 * after it; start once, collective.  add takes this rank's gradient, scatter
 * those of ranks (messages of ts_tbe_reduce); update, after all shardings.  All
 * enqueue; update is collective where the deck needs norms. */
ts_err ts_dense_rows_create(ts_dense_rows **, ts_ebc *, int32_t table,
                            bool replicated);
const ts_row_optim *ts_dense_rows_optim(const ts_dense_rows *);
void ts_dense_rows_attach(ts_dense_rows *, ts_tbe *);
void ts_dense_rows_destroy(ts_dense_rows *);
ts_err ts_dense_rows_start(ts_ebc *);
ts_err ts_dense_rows_add(ts_dense_rows *, const float *grad,
                         const ts_tbe_input *, ts_lane *);
ts_err ts_dense_rows_scatter(ts_dense_rows *, const void *const *msg,
                             const int64_t *msg_bytes, int n_ranks, ts_lane *);
ts_err ts_dense_rows_update(ts_ebc *, double lr_factor, int64_t step,
                            ts_lane *);

/* sharding_batch.c.  forward and backward are Collective and Enqueue. */
ts_err ts_sharding_batch_create(ts_sharding_batch *, ts_sharding *,
                                ts_ebc_batch *);
void ts_sharding_batch_reset(ts_sharding_batch *);
ts_err ts_sharding_forward(ts_sharding_batch *, ts_lane *);
ts_err ts_sharding_forward_end(ts_sharding_batch *, ts_lane *);
ts_err ts_sharding_backward_begin(ts_sharding_batch *, ts_lane *);
ts_err ts_sharding_backward_end(ts_sharding_batch *, double lr_factor,
                                int64_t pass, ts_lane *);

/* geometry.c: where everything lies, once this batch's counts are known.
 * measure fills the arrays and makes room; point sets the views' pointers. */
ts_err ts_sharding_measure(ts_sharding_batch *);
void ts_sharding_point(ts_sharding_batch *);
int64_t ts_sharding_block_floats(const ts_sharding_batch *, int block,
                                 int rank);
/* Makes room for lf->send and lf->recv's bytes, whichever way they go. */
ts_err ts_sharding_reserve_wire(ts_sharding_batch *);

/* assemble.c: views from blocks, and the way back.  Enqueues. */
ts_err ts_sharding_assemble(ts_sharding_batch *, ts_lane *);
ts_err ts_sharding_disassemble(ts_sharding_batch *, ts_lane *);

/* wire.c: bytes of the section of RANK in a matrix of BLOCK's layout, coded;
 * coding is in wire.h. */
int64_t ts_wire_bytes(const ts_sharding_batch *, ts_codec, int block, int rank);

/* column_links.c, column_stats.c: the fused backward of groups that hold
 * columns of rows.  create and backward are Collective; backward Enqueues. */
ts_err ts_columns_create(ts_sharding *);
void ts_columns_destroy(ts_sharding *);
ts_err ts_columns_backward(ts_sharding_batch *, double lr_factor, int64_t pass,
                           ts_lane *);

/* replicas.c: the backward pass of data_parallel shardings.  begin and end are
 * Collective and Enqueue.  create: whose rows heads tell of; after the
 * shardings. count: distinct rows of a batch, from what the host has read. */
ts_err ts_replicas_create(ts_ebc *);
void ts_replicas_count(ts_ebc_batch *);
ts_err ts_replicas_begin(ts_sharding_batch *, ts_lane *);
ts_err ts_replicas_end(ts_sharding_batch *, double lr_factor, int64_t pass,
                       ts_lane *);

/* processors.c: trained weights per position in a bag.  weigh turns the
 * positions of a sharding's ids into weights as they now are; weight_grads adds
 * the sharding's part of their gradient, before its rows are updated. Enqueues.
 */
ts_err ts_sharding_weigh(ts_sharding_batch *, ts_lane *);
ts_err ts_sharding_weight_grads(ts_sharding_batch *, ts_lane *);

/* ---- room, before step 0 ------------------------------------------------- */

/* expect.c, input_unpack.c */
/* The ids and bags expected to arrive for a group, and the sizes of its
 * backward pass. */
ts_tbe_expected ts_expect_group(const ts_sharding *, const ts_sharding_group *);
/* The arrays of a group's input, in the order of ts_sharding_group_buffers:
 * bytes of each and, as the result, of all. */
typedef struct ts_input_shape {
  int32_t n_slots;
  int64_t n_bags, n_ids;
  bool weighted, positions; /* ids have weights; those of a processor */
  bool sorted;              /* ids are sorted as they come */
} ts_input_shape;
int64_t ts_input_sizes(int64_t *size, const ts_input_shape *);
/* Room for the bags of group G. */
ts_err ts_sharding_reserve_input(ts_sharding_batch *, int32_t g, int64_t n_bags,
                                 int64_t n_ids);
/* Buffers of a sharding's batch in flight; returns their number. */
int ts_sharding_batch_buffers(ts_sharding_batch *, ts_buffer **out);
enum { TS_SHARDING_BUFFERS = 8, TS_GROUP_BUFFERS = 12 };
/* The arrays (n_groups) of the groups' buffers. */
void ts_sharding_group_buffers(ts_sharding_batch *, ts_buffer ***out);
/* column_links.c: room for the statistics of rows, from the ebc's pool. */
ts_err ts_columns_expect(ts_sharding *);
