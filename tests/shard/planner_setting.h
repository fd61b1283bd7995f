/* planner_setting.h - decks of plain tables, and requests for plans of them. */
#pragma once

#include <stdio.h>
#include <string.h>

#include "tests/support/harness.h"
#include "shard/cost.h"
#include "shard/sharding.h"

enum { TABLES_MAX = 16 };

/* A deck of plain tables, each with one feature. */
typedef struct ts_setting {
  ts_config config;
  ts_table_config tables[TABLES_MAX];
  char names[TABLES_MAX][16], features[TABLES_MAX][16];
  char *feature[TABLES_MAX];
  ts_nodes *nodes;
  ts_topology topology;
  ts_plan_stats stats[TABLES_MAX];
  ts_plan_request request;
} ts_setting;

static char f32[] = "f32", rowwise[] = "rowwise_adagrad";

static inline void setting(ts_setting *x, int n_tables, int n_ranks,
                           int per_node) {
  memset(x, 0, sizeof *x);
  x->config.tables = x->tables;
  x->config.n_tables = n_tables;
  x->config.sharding.min_column = 32;
  x->config.sharding.comm_dtype_forward = f32;
  x->config.sharding.comm_dtype_backward = f32;
  for (int t = 0; t < n_tables; t++) {
    snprintf(x->names[t], sizeof x->names[t], "t%d", t);
    snprintf(x->features[t], sizeof x->features[t], "f%d", t);
    x->feature[t] = x->features[t];
    x->tables[t] = (ts_table_config){.name = x->names[t],
                                     .rows = 10000,
                                     .dim = 64,
                                     .features = {&x->feature[t], 1},
                                     .optimizer = {.kind = rowwise}};
  }
  ck_assert_ok(ts_nodes_create(&x->nodes, n_ranks, per_node, NULL));
  ts_topology_default(&x->topology);
  x->request = (ts_plan_request){.config = &x->config,
                                 .nodes = x->nodes,
                                 .topology = &x->topology,
                                 .stats = x->stats,
                                 .batch = 128,
                                 .n_ebc_batches = 1,
                                 .memory_bytes = 1e12};
}

/* Once the tables are as the test wants them. */
static inline void know_ids(ts_setting *x, double pooling) {
  for (int t = 0; t < x->config.n_tables; t++)
    x->stats[t] = ts_plan_stats_law(x->tables[t].rows, 0, pooling);
}

static inline void settle(ts_setting *x) {
  ts_nodes_destroy(x->nodes);
}

static inline bool same_plan(const ts_plan *a, const ts_plan *b) {
  if (a->n_tables != b->n_tables || a->n_ranks != b->n_ranks) return false;
  for (int32_t t = 0; t < a->n_tables; t++) {
    const ts_table_plan *p = &a->tables[t], *q = &b->tables[t];
    if (p->kind != q->kind || p->n_shards != q->n_shards) return false;
    for (int32_t k = 0; k < p->n_shards; k++) {
      const ts_shard *s = &p->shards[k], *u = &q->shards[k];
      if (s->rank != u->rank || s->row0 != u->row0 || s->n_rows != u->n_rows ||
          s->col0 != u->col0 || s->n_cols != u->n_cols)
        return false;
    }
  }
  return true;
}
