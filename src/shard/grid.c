/* grid.c - slices of the columns on some nodes, each slice cut by rows over
 * the ranks of its node. */
#include "base/mem.h"
#include "shard/sharding.h"

/* The node of each of N slices: that of the rank that the deck names, else
 * the least loaded ones. */
static ts_err choose_nodes(int *node, int n, const ts_table_config *t,
                           const ts_placement *at) {
  ts_err err = TS_OK;
  const ts_nodes *nodes = at->nodes;
  double *load = NULL;
  int *all = NULL;
  if (t->ranks.n) {
    for (int k = 0; k < n; k++) node[k] = nodes->node[t->ranks.item[k]];
    return TS_OK;
  }
  TS_TRY(ts_mem_many(load, nodes->n_nodes, MISC));
  TS_TRY(ts_mem_many(all, nodes->n_nodes, MISC));
  for (int r = 0; r < nodes->n_ranks; r++)
    load[nodes->node[r]] += at->load[r] / ts_node_size(nodes, nodes->node[r]);
  for (int k = 0; k < nodes->n_nodes; k++) all[k] = k;
  const ts_placement by_node = {.load = load};
  TS_TRY(ts_place_pick(node, n, all, nodes->n_nodes, &by_node));
done:
  ts_mem_free(load);
  ts_mem_free(all);
  return err;
}

static ts_err place(ts_table_plan *p, const ts_table_config *t,
                    const ts_placement *at) {
  ts_err err = TS_OK;
  const ts_nodes *nodes = at->nodes;
  int *node = NULL;
  int32_t n_cols;
  TS_TRY(ts_place_columns(&n_cols, t, at));
  const int n = t->dim / n_cols;
  TS_TRY(ts_mem_many(node, n, MISC));
  TS_TRY(choose_nodes(node, n, t, at));
  for (int k = 0; k < n; k++)
    TS_TRY(ts_place_rows(p, t, nodes->member + nodes->start[node[k]],
                         ts_node_size(nodes, node[k]), k * n_cols, n_cols));
done:
  ts_mem_free(node);
  return err;
}

extern const ts_sharding_ops ts_sharding_grid;
const ts_sharding_ops ts_sharding_grid = {
    .name = "grid",
    .remote = true,
    .split_rows = true,
    .split_columns = true,
    .on_node = TS_NODE_SLICE,
    .by_size = 6,
    .output = &ts_output_two_stage,
    .place = place,
};
