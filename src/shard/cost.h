/* cost.h - what a shard costs its rank, and what a table costs every rank;
 * private to the planner.  All of it is Local. */
#pragma once

#include "shard/planner.h"

/* A table's figures for one step, over all its features. */
typedef struct ts_cost_table {
  int32_t first;       /* number of its first feature */
  double bags;         /* per sample; of sequences every id is one */
  double ids;          /* per sample */
  double distinct;     /* of the global batch */
  double distinct_own; /* of one rank's batch */
  double hot;
  double power;       /* of the load factor: share of ids that find a line */
  double load_factor; /* lines per row, where it has a cache */
  double block[TS_STATS_BLOCKS];
  bool even;          /* all blocks alike */
  double state_bytes; /* per row of all columns */
  bool weighted;      /* by the data or by position */
} ts_cost_table;

typedef struct ts_cost_feature {
  int32_t table;
  int32_t next; /* the next feature of the same ids, in a ring: itself, alone */
  double pooling;
  bool variable; /* bags of its own number */
} ts_cost_feature;

typedef struct ts_cost {
  const ts_plan_request *request;
  ts_cost_table *tables;     /* (n_tables) */
  ts_cost_feature *features; /* (n_features) */
  double n_ranks, n_nodes, per_node, batch, global;
  int n_rounds; /* of statistics over columns, at most */
  double forward_bytes, backward_bytes; /* of a number in output dist */
} ts_cost;

ts_err ts_cost_create(ts_cost *, const ts_plan_request *);
void ts_cost_reset(ts_cost *);

/* TABLE as KIND: shard S on its rank, or the rank's copy. */
void ts_cost_shard(ts_load *, const ts_cost *, int32_t table, ts_shard_kind,
                   const ts_shard *);
/* The load that TABLE, cut as PLAN says, puts on every rank: packing ids,
 * receiving its own samples' embeddings.  Ids that one of PLAN's first N tables
 * brings to the same shards are that one's. */
void ts_cost_everywhere(ts_load *, const ts_cost *, int32_t table,
                        const ts_plan *plan, int32_t n);
/* Adds what a kind costs every rank once any table uses it: its collectives. */
void ts_cost_kind(ts_load *, const ts_cost *, ts_shard_kind);
/* Adds what every step has, whatever the plan: the input exchange's latency,
 * and the dense part's memory and traffic (not its time). */
void ts_cost_always(ts_load *, const ts_cost *);
double ts_cost_dense_ms(const ts_cost *);
void ts_load_add(ts_load *, const ts_load *, double times);

/* Parts that output dists (shard/output_*.c) say their costs in.  Bytes at 1
 * GB/s in a ms; ms of BYTES to other ranks of the node and to other nodes;
 * of a collective's start. */
enum { TS_COST_GB = 1000000 };
double ts_cost_link_ms(const ts_cost *, ts_link_use, double node_bytes,
                       double cross_bytes);
double ts_cost_latency_ms(const ts_cost *, ts_link_use);
/* FLOATS that are spread evenly over all ranks, coded, there and back. */
void ts_cost_exchange(ts_load *, const ts_cost *, double floats,
                      ts_link_use forward, ts_link_use backward);

/* storage.c: the memory part of ts_cost_shard and ts_cost_everywhere; buffers
 * that grow with the batch are so much larger than what they hold. */
#define TS_STORAGE_GROWTH 1.25
void ts_storage_shard(ts_plan_memory *, const ts_cost *, int32_t table,
                      ts_shard_kind, const ts_shard *);
void ts_storage_everywhere(ts_plan_memory *, const ts_cost *, int32_t table,
                           const ts_table_plan *);
/* Bytes of a line of shard S in fast memory, with its share of the directory
 * and of states that move with the row. */
double ts_storage_line(const ts_cost *, int32_t table, const ts_shard *);
/* Share of a table's ids whose rows are in shard S. */
double ts_cost_share(const ts_cost *, int32_t table, const ts_shard *);
/* Rounds of statistics that column shards exchange for a row's update. */
int ts_cost_column_rounds(const ts_cost *, int32_t table, const ts_shard *);
/* Samples whose ids go to a shard: the global batch's, or, where every rank
 * has all rows, the rank's; those ids, and the different rows they touch. */
double ts_cost_samples(const ts_cost *, ts_shard_kind);
double ts_cost_ids(const ts_cost *, int32_t table, ts_shard_kind,
                   const ts_shard *);
double ts_cost_distinct(const ts_cost *, int32_t table, ts_shard_kind,
                        const ts_shard *);

/* cost_ids.c: links features of the same ids; ids and bags of a sample that
 * others of the first N tables bring to TABLE's shards, of each slice of its
 * columns. */
typedef struct ts_cost_sent {
  double ids, bags;
} ts_cost_sent;
ts_err ts_cost_features_create(ts_cost *);
ts_cost_sent ts_cost_brought(const ts_cost *, const ts_plan *, int32_t table,
                             int32_t n);
/* ms of each rank's input dist that the ids of TABLE take, whole on a rank. */
double ts_cost_ids_ms(const ts_cost *, int32_t table);
/* Takes them off AT (ranks) where a rank has them for another table. */
void ts_cost_prefer(double *at, const ts_cost *, const ts_plan *,
                    int32_t table);

/* cost_tier.c: different rows of a batch that have no line, at so many lines
 * per row. */
double ts_cost_misses(const ts_cost *, int32_t table, ts_shard_kind,
                      const ts_shard *, double load_factor);
/* ms that fetching rows of N bytes, and writing back as many, takes. */
double ts_cost_fetch_ms(const ts_cost *, int32_t table, double n);
/* Adds what slow memory adds to a step. */
void ts_cost_tier(ts_load *, const ts_cost *, int32_t table, ts_shard_kind,
                  const ts_shard *);
/* Power of the load factor that hits go by, of ids with these statistics. */
double ts_cost_power(const ts_plan_stats *, double rows);
