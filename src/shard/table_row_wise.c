/* table_row_wise.c - each table cut by rows over the ranks of one node. */
#include "base/mem.h"
#include "shard/sharding.h"

static ts_err place(ts_table_plan *p, const ts_table_config *t,
                    const ts_placement *at) {
  ts_err err = TS_OK;
  const ts_nodes *n = at->nodes;
  int node = ts_place_node(at);
  int *ranks = NULL;
  TS_TRY(ts_place_once(t));
  if (t->ranks.n) TS_TRY(ts_place_one_node(&node, t, n));
  const int n_ranks = t->ranks.n ? t->ranks.n : ts_node_size(n, node);
  TS_TRY(ts_mem_many(ranks, n_ranks, MISC));
  for (int k = 0; k < n_ranks; k++)
    ranks[k] =
        t->ranks.n ? (int)t->ranks.item[k] : n->member[n->start[node] + k];
  TS_TRY(ts_place_rows(p, t, ranks, n_ranks, 0, t->dim));
done:
  ts_mem_free(ranks);
  return err;
}

extern const ts_sharding_ops ts_sharding_table_row_wise;
const ts_sharding_ops ts_sharding_table_row_wise = {
    .name = "table_row_wise",
    .remote = true,
    .split_rows = true,
    .on_node = TS_NODE_TABLE,
    .by_size = 4,
    .output = &ts_output_two_stage,
    .place = place,
};
