/* table_column_wise.c - column_wise with all shards of a table on one node. */
#include "shard/sharding.h"

static ts_err place(ts_table_plan *p, const ts_table_config *t,
                    const ts_placement *at) {
  const ts_nodes *n = at->nodes;
  int node = ts_place_node(at);
  if (t->ranks.n) TS_DO(ts_place_one_node(&node, t, n));
  return ts_place_slices(p, t, n->member + n->start[node],
                         ts_node_size(n, node), at);
}

extern const ts_sharding_ops ts_sharding_table_column_wise;
const ts_sharding_ops ts_sharding_table_column_wise = {
    .name = "table_column_wise",
    .remote = true,
    .split_columns = true,
    .on_node = TS_NODE_TABLE,
    .by_size = 3,
    .output = &ts_output_all_to_all,
    .place = place,
};
