/* row_wise.c - each table cut by rows over the ranks.
 *
 * The ids of a bag go to the ranks that hold their rows; each rank pools what
 * it has of every sample of the global batch, and a reduce-scatter sums the
 * parts.  Means divide by the whole bag's length, so that happens after the
 * sum, and before the gradients are gathered on the way back (assemble.c).
 * Embeddings per id are not summed: they come from the rank of their row. */
#include "base/mem.h"
#include "shard/sharding.h"

static ts_err place(ts_table_plan *p, const ts_table_config *t,
                    const ts_placement *at) {
  ts_err err = TS_OK;
  const int n = t->ranks.n ? t->ranks.n : at->nodes->n_ranks;
  int *ranks = NULL;
  TS_TRY(ts_place_once(t));
  TS_TRY(ts_mem_many(ranks, n, MISC));
  for (int k = 0; k < n; k++) ranks[k] = t->ranks.n ? (int)t->ranks.item[k] : k;
  TS_TRY(ts_place_rows(p, t, ranks, n, 0, t->dim));
done:
  ts_mem_free(ranks);
  return err;
}

extern const ts_sharding_ops ts_sharding_row_wise;
const ts_sharding_ops ts_sharding_row_wise = {
    .name = "row_wise",
    .remote = true,
    .split_rows = true,
    .by_size = 5,
    .output = &ts_output_reduce_scatter,
    .sequence = &ts_output_all_to_all,
    .place = place,
};
