/* sharding.h - the inside of the sharded collection; private to shard/.
 *
 * A sharding type (one file each, registered in sharding.c) says where shards
 * are placed, whether the ids of a bag are spread over them, and which output
 * dist brings pooled embeddings back (output_*.c; several types share one).
 *
 *   lot      the tables of one type (sequences and weighted ones apart): their
 *            groups write one matrix, which one output dist carries
 *   view     a feature as the model sees it: (bags, dim)
 *   piece    the columns of a view that travel together: one per column
 *            shard (of sequences cut by rows: one per row shard)
 *   block    what arrives together: (B, width) of all pieces whose bags are
 *            samples, then (bags, n_cols) of each piece with bags of its own
 *   route    ids of one feature on their way to one shard
 *
 * A feature is "variable" when it has bags of its own number: distinct bags
 * (data.dedup) or distinct ids (sequences); see bags.c. */
#ifndef TS_SHARD_SHARDING_H
#define TS_SHARD_SHARDING_H

#include "shard/codec.h"
#include "shard/ebc.h"

typedef struct ts_lot ts_lot;
typedef struct ts_lot_flight ts_lot_flight;
typedef struct ts_dense_rows ts_dense_rows;

/* ---- types --------------------------------------------------------------- */

/* What placement goes by.  A type picks the ranks (or the node) with the
 * least load, the lowest among equals; whoever asks adds to the loads. */
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
  ts_err (*create)(ts_lot *); /* comms; may be NULL */
  /* Room on the wire for both directions, before anything of the batch is
   * enqueued; may be NULL. */
  ts_err (*reserve)(ts_lot_flight *);
  /* Bytes that the sums of a batch keep aside in its comms; may be NULL. */
  ts_err (*scratch)(ts_lot_flight *);
  /* Bytes that this rank sends forward with a codec; NULL: its sections. */
  int64_t (*bytes)(const ts_lot_flight *, ts_codec);
  /* The order in which the sections of ranks lie in what is written: NULL
   * ascending. */
  void (*order)(const ts_lot *, int *ranks /* (W) */);
  ts_err (*forward_begin)(ts_lot_flight *, ts_lane *);
  ts_err (*forward_end)(ts_lot_flight *, ts_lane *);
  ts_err (*backward_begin)(ts_lot_flight *, ts_lane *);
  ts_err (*backward_end)(ts_lot_flight *, ts_lane *);
} ts_output_dist;

extern const ts_output_dist ts_output_local, ts_output_all_to_all,
    ts_output_reduce_scatter, ts_output_two_stage;

typedef struct ts_sharding_ops {
  const char *name;
  ts_shard_kind kind;
  bool remote;     /* ids travel: takes part in input dist */
  bool split_rows; /* a bag's ids go to the shards that hold their rows */
  const ts_output_dist *output;   /* of pooled embeddings */
  const ts_output_dist *sequence; /* of embeddings per id; NULL: none */
  /* Fills PLAN's shards for TABLE (table.ranks honoured, see doc/sharding);
   * DECK errors name the table. */
  ts_err (*place)(ts_table_plan *, const ts_table_config *,
                  const ts_placement *);
} ts_sharding_ops;

const ts_sharding_ops *ts_sharding_find(ts_shard_kind); /* NULL: none */

/* ---- lots ---------------------------------------------------------------- */

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

/* One TBE group of a lot on this rank. */
typedef struct ts_lot_group {
  ts_tbe *tbe;
  int32_t n_slots;
  int32_t *piece; /* (n_slots) */
  int32_t *route; /* (n_slots) route that feeds it, among those to this rank;
                     set once routes are known */
  bool weighted;
  bool positions;       /* weights come from the ids' places in their bags */
  bool columns;         /* of rows that other shards hold the rest of */
  ts_dense_rows *dense; /* trained by the deck's optimizer; NULL: fused */
} ts_lot_group;

struct ts_lot {
  const ts_sharding_ops *ops;
  const ts_output_dist *output;
  ts_ebc *ebc;
  bool sequence, weighted;
  bool late; /* has tables of optimizer "none", updated after all others */
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
  ts_lot_group *groups;
  int32_t n_groups;
  struct ts_column_stats *columns; /* column_links.c; NULL: not needed */
};

/* What a lot needs for one batch. */
struct ts_lot_flight {
  ts_lot *lot;
  ts_flight *flight;
  ts_tbe_input *inputs; /* (n_groups) */
  ts_tbe_hold *holds;   /* (n_groups) of cached ones */
  /* (n_groups) behind the inputs */
  ts_buffer *starts, *offsets, *at, *rows, *weights;
  ts_buffer *positions;    /* uint16 of each id, of groups that have them */
  ts_buffer *weight_grads; /* f32, theirs, too */
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
  float *inverse;  /* (n_views, batch_max) 1 / bag length, of means */
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

/* The trained weights of one feature, by position (processors.c). */
typedef struct ts_processor {
  int32_t feature;
  ts_param *param; /* (max_length) */
  double *sum;     /* (max_length) this rank's part of the gradient */
} ts_processor;

struct ts_ebc {
  const ts_config *config;
  const ts_plan *plan;
  const ts_nodes *nodes;
  ts_world *world;
  ts_device *device;
  const ts_kernels *kernels;
  ts_comm *input_comm;
  ts_rooms input_rooms;
  int32_t batch_max; /* samples of a rank, as expected; 0: not known */
  double *pooling;   /* (n_features) ids per sample, as expected */
  ts_pool pool;      /* scratch of the backward pass; with expectations */
  bool has_flights;
  int rank, n_ranks;
  int32_t n_features;
  int32_t *feature_table; /* (n_features) table_id */
  int32_t *variable;      /* (n_features) number, -1: bags are samples */
  int32_t n_variable;
  ts_codec forward, backward; /* of output dist */
  double *dense_stats; /* (n_tables, 2) squares of whole tables; or NULL */
  bool dense_norms;    /* some table needs them: on all ranks alike */
  ts_comm *dense_comm; /* their sums; NULL: not needed */
  bool more;        /* micro-batches of this step follow: gradients are kept */
  ts_params params; /* of the processors, in their order */
  ts_processor *processors; /* (params.n) by feature */
  ts_lot *lots;
  int32_t n_lots;
  struct ts_route *routes; /* sorted by rank */
  int32_t n_routes;
  int32_t *route_start; /* (W + 1) routes to each rank */
  struct ts_row_split *splits;
  int32_t n_splits, parts_max;
  ts_ebc_stat stat;
};

/* One way of ids: those of FEATURE whose rows lie in [row0, row0 + n_rows)
 * go to RANK. */
typedef struct ts_route {
  int32_t feature, table, rank;
  int64_t row0, n_rows;
  int32_t part; /* number of the row shard, of split sequences */
  bool split, sequence, weighted;
  bool positions; /* each id's place in its bag travels, too */
} ts_route;

/* The row shards of one feature that its bags' ids are spread over. */
typedef struct ts_row_split {
  int32_t feature;
  int32_t n_parts; /* shards with rows; they come first */
  int32_t n_all;
  int64_t block;  /* rows of each part but the last, 0: they differ */
  int64_t *row0;  /* (n_all) ascending */
  int32_t *route; /* (n_all) */
} ts_row_split;

/* ---- flights ------------------------------------------------------------- */

/* What of a feature travels: its bags, or its distinct ones (bags.c). */
typedef struct ts_bags {
  ts_jagged ids;
  int32_t n;                  /* bags */
  int32_t n_out;              /* rows that the model sees */
  const int32_t *inverse;     /* (n_out) bag of each, NULL: its own */
  const int32_t *part;        /* (parts + 1) split sequences: bags of each row
                                 shard; NULL: not split */
  struct ts_bag_store *store; /* of variable features */
} ts_bags;

struct ts_flight {
  ts_ebc *ebc;
  ts_pool pool; /* of its buffers and its lots', where sizes are expected */
  int32_t batch_max;
  const ts_kjt *kjt;
  ts_status own;
  ts_err_record fault; /* what own.err says, where packing found it */
  ts_status *statuses; /* (W) */
  int32_t *batch;      /* (W) samples of each rank */
  int32_t n, n_global; /* samples here and everywhere */
  ts_bags *bags;       /* (n_features) */
  int32_t *variable;   /* (W, n_variable) bags of each rank */
  /* input dist */
  ts_buffer send;
  int64_t *send_bytes;  /* (W) */
  ts_exchange exchange; /* its recv_bytes and recv_at (W) are ours, too */
  ts_token token;
  ts_event unpacked;
  ts_lot_flight *lots; /* (n_lots) */
  const float **emb;   /* (n_features) */
  float **grad;
  int64_t *stride;
  int64_t *route_count;        /* (n_routes) ids of each, while packing */
  char **section_at;           /* (n_routes) where its section starts */
  struct ts_part *parts;       /* (parts_max) scratch of input_split.c */
  struct ts_section *sections; /* (routes to here, W) of input_unpack.c */
};

/* How a section of a message gives the lengths of its bags; a section's
 * entry in the message's table is n_ids << TS_FORM_BITS | form. */
enum { TS_FORM_ONE, TS_FORM_BYTES, TS_FORM_INTS, TS_FORM_BITS = 2 };

static inline int64_t ts_pad4(int64_t bytes) {
  return (bytes + 3) / 4 * 4;
}

/* Bytes of the lengths of N bags. */
static inline int64_t ts_form_bytes(int form, int64_t n) {
  return form == TS_FORM_ONE ? 0 : form == TS_FORM_BYTES ? ts_pad4(n) : 4 * n;
}

/* Bytes of a row's number in a shard of N_ROWS on the wire: 1, 2 or 4. */
static inline int ts_id_bytes(int64_t n_rows) {
  return n_rows <= 256 ? 1 : n_rows <= 65536 ? 2 : 4;
}

/* An id's place in its bag, as it is kept and travels: processors have no
 * more weights than that. */
static inline uint16_t ts_position(int64_t place) {
  return place < UINT16_MAX ? (uint16_t)place : UINT16_MAX;
}

/* Bytes of a message's head: status, bags of the variable features, and a
 * word per route. */
static inline int64_t ts_head_bytes(const ts_ebc *ebc, int32_t n_routes) {
  return (int64_t)sizeof(ts_status) + (ebc->n_variable + 1) / 2 * 8 +
         8 * (int64_t)n_routes;
}

/* input_split.c: features whose bags are spread over row shards, each id
 * looked at once whatever the number of shards. */
ts_err ts_splits_create(ts_ebc *); /* after the routes */
void ts_splits_destroy(ts_ebc *);
ts_err ts_split_scratch(ts_flight *);
/* Sets route_count of the split's routes; then writes their sections. */
void ts_split_measure(ts_flight *, const ts_row_split *);
void ts_split_write(ts_flight *, const ts_row_split *);

/* How a section lies in a message. */
typedef struct ts_layout {
  char *lengths, *rows, *end;
  float *weights;
  uint16_t *positions;
  int form, id_bytes;
} ts_layout;
int64_t ts_section_bytes(const ts_route *, int64_t n_ids, int form,
                         int64_t n_bags);
ts_layout ts_section_layout(const ts_route *, int64_t n_ids, int form,
                            int64_t n_bags, char *at);
static inline void ts_put_row(char *rows, int64_t n, int id_bytes,
                              int64_t row) {
  if (id_bytes == 1) ((uint8_t *)rows)[n] = (uint8_t)row;
  if (id_bytes == 2) ((uint16_t *)(void *)rows)[n] = (uint16_t)row;
  if (id_bytes == 4) ((int32_t *)(void *)rows)[n] = (int32_t)row;
}

/* bags.c */
ts_err ts_bags_create(ts_flight *);
void ts_bags_destroy(ts_flight *);
ts_err ts_bags_make(ts_flight *);   /* of the batch at hand */
ts_err ts_bags_expect(ts_flight *); /* of a full one, with room for them */

/* expect.c: of a full batch of one rank the bytes of its message to RANK, the
 * ids of a feature, and those that go to a shard of N_ROWS rows. */
int64_t ts_expect_message(const ts_ebc *, int rank);
int64_t ts_expect_ids(const ts_ebc *, int32_t feature);
int64_t ts_expect_part(const ts_ebc *, int32_t feature, int64_t n_rows);
/* Ids that arrive for ROUTE from one rank, and their bags. */
int64_t ts_expect_route(const ts_ebc *, const ts_route *, int64_t *n_bags);
/* expect_flight.c: the buffers of FL into its pool, which starts: as many
 * bytes as a full batch of all ranks takes.  The sizes of the batch that is
 * played are gone afterwards. */
ts_err ts_flight_expect(ts_flight *);
/* What arrives for a group, and what its backward pass makes of it. */
ts_tbe_expected ts_expect_group(const ts_lot *, const ts_lot_group *);
/* Room for the bags of group G. */
ts_err ts_lot_reserve_input(ts_lot_flight *, int32_t g, int64_t n_bags,
                            int64_t n_ids);
/* Buffers of a lot's flight; returns their number. */
int ts_lot_flight_buffers(ts_lot_flight *, ts_buffer **out);
enum { TS_LOT_BUFFERS = 8, TS_GROUP_BUFFERS = 7 };
/* column_links.c: room for the statistics of rows, from the ebc's pool. */
ts_err ts_columns_expect(ts_lot *);

/* input_dist.c, input_unpack.c: tasks of the data lane. */
ts_err ts_input_pack(void *flight /* ts_flight ** */, ts_lane *);
ts_err ts_input_statuses(ts_flight *); /* after the exchange, on the host */
ts_err ts_input_create(ts_flight *);
ts_err ts_input_unpack(void *flight /* ts_flight ** */, ts_lane *);

/* lot.c: views, pieces and groups; N_VIEWS 0 where the plan has none. */
ts_err ts_lot_create(ts_lot *, ts_ebc *, const ts_sharding_ops *, bool sequence,
                     bool weighted);
void ts_lot_reset(ts_lot *);
/* This rank's shard for PIECE, NULL: none. */
const ts_shard *ts_lot_own_shard(const ts_lot *, const ts_piece *);
/* True when shard and piece are the same part of the same table. */
bool ts_lot_same(const ts_lot *, const ts_piece *, const ts_shard *);

/* dense_rows.c: tables of optimizer "none".  create before the group, attach
 * after it; start once, collective.  add takes this rank's gradient, scatter
 * those of ranks (messages of ts_tbe_reduce); update, after all lots.  All
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

/* lot_flight.c */
ts_err ts_lot_flight_create(ts_lot_flight *, ts_lot *, ts_flight *);
void ts_lot_flight_reset(ts_lot_flight *);
ts_err ts_lot_forward(ts_lot_flight *, ts_lane *);
ts_err ts_lot_forward_end(ts_lot_flight *, ts_lane *);
ts_err ts_lot_backward_begin(ts_lot_flight *, ts_lane *);
ts_err ts_lot_backward_end(ts_lot_flight *, double lr_factor, int64_t pass,
                           ts_lane *);

/* geometry.c: where everything lies, once this batch's counts are known.
 * measure fills the arrays and makes room; point sets the views' pointers. */
ts_err ts_lot_measure(ts_lot_flight *);
void ts_lot_point(ts_lot_flight *);
int64_t ts_lot_block_floats(const ts_lot_flight *, int block, int rank);
/* Makes room for lf->send and lf->recv's bytes, whichever way they go. */
ts_err ts_lot_reserve_wire(ts_lot_flight *);

/* assemble.c: views from blocks, and the way back. */
ts_err ts_lot_assemble(ts_lot_flight *, ts_lane *);
ts_err ts_lot_disassemble(ts_lot_flight *, ts_lane *);

/* wire.c: the section of RANK in a matrix of BLOCK's layout, coded.  X may be
 * NULL: bytes only. */
int64_t ts_wire_bytes(const ts_lot_flight *, ts_codec, int block, int rank);
int64_t ts_wire_encode(const ts_lot_flight *, ts_codec, int block, int rank,
                       const float *x, char *wire);
/* ADD: onto what is there. */
int64_t ts_wire_decode(const ts_lot_flight *, ts_codec, int block, int rank,
                       float *x, const char *wire, bool add);

/* column_links.c, column_stats.c: the fused backward of groups that hold
 * columns of rows. */
ts_err ts_columns_create(ts_lot *);
void ts_columns_destroy(ts_lot *);
ts_err ts_columns_backward(ts_lot_flight *, double lr_factor, int64_t pass,
                           ts_lane *);

/* replicas.c: the backward pass of data_parallel lots. */
ts_err ts_replicas_begin(ts_lot_flight *, ts_lane *);
ts_err ts_replicas_end(ts_lot_flight *, double lr_factor, int64_t pass,
                       ts_lane *);

/* processors.c: trained weights per position in a bag.  weigh turns the
 * positions of a lot's ids into weights as they now are; weight_grads adds
 * the lot's part of their gradient, before its rows are updated; begin and
 * end clear the sums and write the parameters' gradients. */
ts_err ts_processors_create(ts_ebc *);
void ts_processors_destroy(ts_ebc *);
ts_err ts_lot_weigh(ts_lot_flight *, ts_lane *);
ts_err ts_processors_begin(ts_ebc *, ts_lane *);
ts_err ts_lot_weight_grads(ts_lot_flight *, ts_lane *);
ts_err ts_processors_end(ts_ebc *, ts_lane *);

/* ---- placement ----------------------------------------------------------- */

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
