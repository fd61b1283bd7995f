/* nodes.c - which ranks share a node. */
#include "base/mem.h"
#include "shard/plan.h"

static ts_err fill(ts_nodes *n) {
  for (int r = 0; r < n->n_ranks; r++)
    if (n->node[r] >= n->n_nodes) n->n_nodes = n->node[r] + 1;
  TS_DO(ts_mem_many(n->start, n->n_nodes + 1, MISC));
  for (int k = 0, at = 0; k < n->n_nodes; k++) {
    for (int r = 0; r < n->n_ranks; r++)
      if (n->node[r] == k) {
        n->index[r] = at - n->start[k];
        n->member[at++] = r;
      }
    n->start[k + 1] = at;
  }
  return TS_OK;
}

ts_err ts_nodes_create(ts_nodes **out, int n_ranks, int ranks_per_node,
                       const int *node_of) {
  ts_err err = TS_OK;
  ts_nodes *n = NULL;
  const int per = ranks_per_node > 0 ? ranks_per_node : n_ranks;
  TS_TRY(ts_mem_alloc(&n, sizeof *n, TS_TAG_MISC));
  n->n_ranks = n_ranks;
  TS_TRY(ts_mem_many(n->node, n_ranks, MISC));
  TS_TRY(ts_mem_many(n->index, n_ranks, MISC));
  TS_TRY(ts_mem_many(n->member, n_ranks, MISC));
  for (int r = 0; r < n_ranks; r++) n->node[r] = node_of ? node_of[r] : r / per;
  TS_TRY(fill(n));
  *out = n;
  n = NULL;
done:
  ts_nodes_destroy(n);
  return err;
}

void ts_nodes_destroy(ts_nodes *n) {
  if (!n) return;
  ts_mem_free(n->node);
  ts_mem_free(n->index);
  ts_mem_free(n->start);
  ts_mem_free(n->member);
  ts_mem_free(n);
}
