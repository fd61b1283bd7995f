/* plan.h - which rank holds which part of which table.
 *
 * Made once, the same on all ranks; kept as text in the checkpoint's
 * /meta/plan.  A resumed run with the same deck and ranks reuses it.
 *
 * Which shards a sharding type makes stands in its file, and in
 * ts_sharding_ops (shard/sharding.h).  All of it is Local. */
#pragma once

#include "base/config.h"
#include "base/err.h"
#include "base/str.h"

/* Rows [row0, row0 + n_rows) and columns [col0, col0 + n_cols) on RANK. */
typedef struct ts_shard {
  int32_t rank;
  int64_t row0, n_rows;
  int32_t col0, n_cols;
} ts_shard;

/* Something by its size: a table, a rank. */
typedef struct ts_sized {
  double size;
  int32_t number;
} ts_sized;
/* Largest first; equals stay in the order of their numbers. */
void ts_sort_sized(ts_sized *, int32_t n);

typedef struct ts_table_plan {
  ts_shard_kind kind;
  ts_shard *shards; /* data_parallel: one per rank, each the whole table */
  int32_t n_shards;
  const char *kernel; /* "cached" or "host", where the planner chose that for
                         a table whose kernel the deck leaves open */
} ts_table_plan;

/* Which ranks share a node. */
typedef struct ts_nodes {
  int n_ranks, n_nodes;
  int *node;   /* (n_ranks) */
  int *index;  /* (n_ranks) number of the rank within its node */
  int *start;  /* (n_nodes + 1) into member */
  int *member; /* (n_ranks) ranks by node, ascending within a node */
} ts_nodes;

/* NODE_OF (n_ranks) numbers from 0, or NULL: ranks_per_node consecutive ranks
 * each (0: all on one node), the last node with what is left.  Local. */
ts_err ts_nodes_create(ts_nodes **, int n_ranks, int ranks_per_node,
                       const int *node_of);
void ts_nodes_destroy(ts_nodes *);
static inline int ts_node_size(const ts_nodes *n, int node) {
  return n->start[node + 1] - n->start[node];
}

typedef struct ts_plan {
  ts_table_plan *tables; /* (n_tables), the deck's order */
  int32_t n_tables, n_ranks;
  int32_t n_nodes; /* 0: not known */
} ts_plan;

/* The plan by sizes alone (sharding.plan = "by_size"): manual placement where
 * the deck says so; auto: small tables data_parallel, tables larger than a
 * rank's fair share row_wise, the rest table_wise on the rank with the least
 * bytes so far, largest first.  DECK errors name the table.  Local,
 * deterministic.  The planner (shard/planner.h) goes by time and memory. */
ts_err ts_plan_make(ts_plan **, const ts_config *, const ts_nodes *);
ts_err ts_plan_create(ts_plan **, int32_t n_tables, int n_ranks); /* empty */
void ts_plan_destroy(ts_plan *);

/* Shards of TABLE as sharding KIND places them (shard/sharding.h), in place of
 * those that are there.  DECK errors name the table. */
struct ts_placement;
ts_err ts_plan_place(ts_table_plan *, ts_shard_kind, const ts_table_config *,
                     const struct ts_placement *);
/* Gives the deck's tables the kernels that PLAN (NULL: none) chose; on a
 * device without memory of its own their rows are in files of run.tier_dir,
 * where there is one.  A table's kernel that the deck names stays. */
void ts_plan_apply(const ts_config *, const ts_plan *, bool discrete);
/* Tables whose kernel the planner chose. */
int32_t ts_plan_n_kernels(const ts_plan *);
/* True when the table's `allow` (empty: all) holds KIND. */
bool ts_plan_allowed(const ts_table_config *, ts_shard_kind);
/* DECK error where the table's rows can't be in slow memory as KIND. */
ts_err ts_plan_check_kind(const ts_table_config *, ts_shard_kind);

/* DECK error that says why PLAN can't run on these ranks and nodes: a rank
 * that is not there, rows or columns missing or twice, shards of one node's
 * type on several nodes. */
ts_err ts_plan_check(const ts_plan *, const ts_config *, const ts_nodes *);
/* DECK error that says where PLAN is not what the deck fixes with `sharding`,
 * `ranks` and `allow`.  PLAN has passed ts_plan_check. */
ts_err ts_plan_obeys(const ts_plan *, const ts_config *, const ts_nodes *);

/* A plan as text (doc/planner.texi):
 *
 *   # tessera plan 1: 4 ranks, 2 nodes
 *   NAME KIND [cached | host] rank:row0+n_rows,col0+n_cols ...
 *
 * one line a table, in any order; a kernel where the planner chose one (it
 * means nothing where the deck names one); in names blanks, control characters,
 * # and % are written %XX.  Further lines that start with # and empty ones mean
 * nothing.  Without the head the ranks are as many as the shards name. */
ts_err ts_plan_print(ts_str *, const ts_plan *, const ts_config *);
/* CKPT errors say which line is wrong. */
ts_err ts_plan_parse(ts_plan **, const char *text, const ts_config *);
/* A file of `tessera plan --save`: DECK errors name file and line. */
ts_err ts_plan_read(ts_plan **, const char *path, const ts_config *);

const char *ts_shard_kind_name(ts_shard_kind);
/* Every rank has all rows of such a table. */
bool ts_shard_kind_is_replicated(ts_shard_kind);
