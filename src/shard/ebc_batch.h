/* ebc_batch.h - the inside of the collection, and of a batch on its way through
 * it; private to shard/.
 *
 *   route    ids of one feature on their way to one shard
 *   batch in flight   what one batch needs between input_begin and backward_end
 * Functions are Local unless they say Collective or Enqueues. */
#pragma once

#include "shard/sharding_impl.h"
#include "shard/pack.h"

/* ---- the collection ------------------------------------------------------ */

/* The trained weights of one feature, by position (processors.c). */
typedef struct ts_processor {
  int32_t feature;
  ts_param *param; /* (max_length) */
  int64_t at;      /* of its sums among those of all processors */
} ts_processor;

/* The gradients of all processors side by side. */
typedef struct ts_position_store {
  int64_t n;
  ts_buffer sum; /* f64: this rank's part of the gradient */
} ts_position_store;

struct ts_ebc {
  const ts_config *config;
  const ts_plan *plan;
  const ts_nodes *nodes;
  ts_world *world;
  ts_device *device;
  const ts_kernels *kernels;
  ts_comm *input_comm;
  ts_rooms input_rooms;
  ts_comm *section_comm; /* on a discrete device what heads tell of goes here,
                            from its memory to its memory; NULL elsewhere */
  int32_t batch_max;     /* samples of a rank, as expected; 0: not known */
  double *pooling;       /* (n_features) ids per sample, as expected */
  ts_pool pool;          /* scratch of the backward pass; with expectations */
  bool has_batches;
  bool uploaded; /* batches come with ts_ebc_batch_uploaded */
  bool counts;   /* on a device that runs at once: the host counts what travels,
                    as it has read it, and no batch waits for the device */
  int rank, n_ranks;
  int32_t n_features;
  int32_t *feature_table; /* (n_features) table_id */
  int32_t *variable;      /* (n_features) number, -1: bags are samples */
  int32_t n_variable;
  bool *once;      /* (n_features) of sequences: rows are given once each */
  int32_t *ids_of; /* (n_features) whose ids travel for it: its own, or those of
                      an earlier feature, which are the same and go to the same
                      shards of rows */
  ts_codec forward, backward; /* of output dist */
  /* (n_tables + 1, 2) f64 of the device: squares of whole tables, and of what
   * another rank counts; or empty */
  ts_buffer dense_stats;
  bool dense_norms;    /* some table needs them: on all ranks alike */
  ts_comm *dense_comm; /* their sums; NULL: not needed */
  bool more;         /* micro-batches of this step follow: gradients are kept */
  ts_params params;  /* of the processors, in their order */
  uint32_t ahead;    /* as of ts_ebc_hide_from */
  uint32_t n_learnt; /* batches whose ids may have got rows (dynamic.c) */
  ts_processor *processors; /* (params.n) by feature */
  ts_position_store positions;
  ts_sharding *shardings;
  int32_t n_shardings;
  struct ts_route *routes; /* sorted by rank */
  int32_t n_routes;
  int32_t *route_start; /* (W + 1) routes to each rank */
  struct ts_row_split *splits;
  int32_t n_splits, n_parts; /* parts of all splits */
  /* Groups that all ranks hold whose distinct rows heads tell of, with counts;
   * 0: they are asked for when they are sent.  seen: a bit for each row of the
   * largest of their tables. */
  int32_t n_replicas;
  uint64_t *seen;
  ts_ebc_stat stat;
};

/* One way of ids: those of FEATURE, and of those whose ids_of it is, whose rows
 * lie in [row0, row0 + n_rows) go to RANK. */
typedef struct ts_route {
  int32_t feature, table, rank;
  int64_t row0, n_rows;
  int32_t part; /* number of the row shard, of split sequences */
  bool split, sequence, weighted, dynamic;
  bool positions; /* each id's place in its bag travels, too */
} ts_route;

/* The row shards of one feature that its bags' ids are spread over. */
typedef struct ts_row_split {
  int32_t feature;
  int32_t n_parts; /* shards with rows; they come first */
  int32_t n_all;
  bool hashed;    /* ids go by their keys (ts_index_shard) */
  int64_t block;  /* rows of each part but the last, 0: they differ */
  int64_t *row0;  /* (n_all) ascending; hashed: 0 */
  int32_t *route; /* (n_all) */
} ts_row_split;

/* processors.c: begin and end clear the sums of the positions' gradients and
 * write the parameters' gradients. */
ts_err ts_processors_create(ts_ebc *);
void ts_processors_destroy(ts_ebc *);
ts_err ts_processors_begin(ts_ebc *, ts_lane *);
ts_err ts_processors_end(ts_ebc *, ts_lane *);

/* ---- batches in flight
 * ------------------------------------------------------------- */

/* The bags of a feature that travel: all, or the distinct ones (bags.c).  On a
 * discrete device (ts_device_is_discrete) the arrays of ids, inverse, offsets,
 * member_start and member are device memory; numbers and part are the host's
 * everywhere.  On the host the last three are NULL. */
typedef struct ts_bags {
  ts_jagged ids;               /* apart: by lengths, or one id in every bag */
  int32_t n;                   /* bags */
  int32_t n_out;               /* rows that the model sees */
  const int32_t *inverse;      /* (n_out) bag of each, NULL: its own */
  const int64_t *offsets;      /* (n + 1) where each bag's ids start, from 0 */
  const int32_t *member_start; /* (n + 1) of each bag in member, from 0 */
  const int32_t *member;       /* (n_out) the rows of each bag, ascending; both
                                  NULL without inverse */
  const int32_t *part;         /* (parts + 1) split sequences: bags of each row
                                  shard; NULL: not split */
  ts_spread spread; /* where ebc->once: inverse and members are there alone */
  struct ts_bag_store *store; /* of variable features */
} ts_bags;

struct ts_ebc_batch {
  ts_ebc *ebc;
  ts_pool
      pool; /* of its buffers and its shardings', where sizes are expected */
  int32_t batch_max;
  uint32_t learnt; /* its number among ebc->n_learnt; 0: not learnt from */
  bool again;      /* the one before it was of the same step */
  bool sorts;      /* ids are sorted on the data lane, where they arrive */
  const ts_kjt *kjt;
  ts_status own;
  ts_err_record fault;   /* what own.err says, where packing found it */
  ts_status *statuses;   /* (W) */
  int32_t *batch;        /* (W) samples of each rank */
  int32_t n, n_global;   /* samples here and everywhere */
  ts_bags *bags;         /* (n_features) */
  int32_t *variable;     /* (W, n_variable) bags of each rank */
  int64_t *replica_rows; /* (W + 1, n_replicas) distinct rows of each rank's
                            batch; behind them, of this one's, until heads have
                            come */
  /* input dist */
  ts_buffer send;
  int64_t *send_bytes;  /* (W) */
  ts_exchange exchange; /* its recv_bytes and recv_at (W) are ours, too */
  ts_token token, section_token;
  ts_event unpacked;
  ts_sharding_batch *shardings; /* (n_lots) */
  const float **emb;            /* (n_features) */
  float **grad;
  int64_t *stride;
  /* input_unpack.c; where the device is discrete the last line, too, and with
   * section_comm the sections of each rank from *_at on. */
  struct ts_unpack_part *sections; /* (routes to here, W) of what arrived */
  ts_buffer list;                  /* ts_unpack_part of all groups */
  ts_buffer list_copy, arrived;
  int64_t *section_send, *section_recv, *section_recv_at; /* (W) bytes */
  /* The batch as kernels are told of it, all in one pinned block. */
  ts_buffer plan;
  ts_pack_feature *raw;  /* (n_features) as the reader gave them */
  ts_distinct *distinct; /* (n_variable) */
  ts_pack_section *pack; /* (n_routes) */
  ts_pack_split *splits; /* (n_splits) */
  ts_pack_part *parts;   /* (n_parts) */
  uint64_t *bad;         /* (2) what unpack has noted, once it is done, and the
                            number of a bad id, where it is told then */
  bool checked;          /* it is */
  bool to_judge;         /* the host has not looked yet */
  int32_t n_pack;
  /* The kernels' results: the number of a bad id, then how much of each feature
   * is distinct, then a word for each route; known: the host's copy.  Behind
   * them a word for unpack. */
  ts_buffer found;
  int64_t *known, *route_count; /* (n_known), (n_routes) */
  int64_t n_known, first_word;
  int64_t *section_at; /* (n_routes) where its section starts */
  /* Discrete devices only.  uploaded: kernels see the BYTES of the batch's
   * arrays that the host has at FROM, at AT; stage and device_batch: the other
   * arrays, on the host and on the device; spread: starts of spread bags;
   * packed: the sections to all ranks. */
  struct ts_uploaded {
    const char *from, *at;
    size_t bytes;
  } uploaded;
  ts_buffer stage, device_batch, spread, packed;
};

/* bags.c; parts: first rows of the N row shards of sequences cut by rows,
 * NULL elsewhere. */
const int64_t *ts_bags_parts(const ts_ebc_batch *, int32_t feature, int32_t *n);
int64_t ts_bags_found(const ts_ebc_batch *); /* words of what is distinct */
ts_err ts_bags_create(ts_ebc_batch *);
void ts_bags_destroy(ts_ebc_batch *);
ts_err ts_bags_make(ts_ebc_batch *);   /* of the batch at hand */
ts_err ts_bags_expect(ts_ebc_batch *); /* of a full one, with room for them */

/* expect.c: of a full batch of one rank the bytes of its message to RANK, those
 * of its sections that go beside it, the ids of a feature, and those that go to
 * a shard of N_ROWS rows. */
int64_t ts_expect_message(const ts_ebc *, int rank);
int64_t ts_expect_sections(const ts_ebc *, int rank);
int64_t ts_expect_ids(const ts_ebc *, int32_t feature);
int64_t ts_expect_part(const ts_ebc *, int32_t feature, int64_t n_rows);
/* Ids that arrive for ROUTE from one rank, and their bags. */
int64_t ts_expect_route(const ts_ebc *, const ts_route *, int64_t *n_bags);
/* expect_batch.c: the buffers of FL into its pool, which starts: as many
 * bytes as a full batch of all ranks takes.  The sizes of the batch that is
 * played are gone afterwards. */
ts_err ts_ebc_batch_expect(ts_ebc_batch *);
