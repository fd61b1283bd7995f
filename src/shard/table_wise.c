/* table_wise.c - each table whole on one rank: bags go there whole, pooled
 * embeddings come back by all-to-all. */
#include "base/mem.h"
#include "shard/sharding.h"

static ts_err place(ts_table_plan *p, const ts_table_config *t,
                    const ts_placement *at) {
  int rank;
  if (t->ranks.n > 1)
    return ts_fail(TS_ERR_DECK,
                   "table %s: table_wise takes one rank in `ranks`, not %d",
                   t->name, t->ranks.n);
  if (t->ranks.n)
    rank = (int)t->ranks.item[0];
  else
    TS_DO(ts_place_pick(&rank, 1, at->nodes->member, at->nodes->n_ranks, at));
  return ts_place_rows(p, t, &rank, 1, 0, t->dim);
}

extern const ts_sharding_ops ts_sharding_table_wise;
const ts_sharding_ops ts_sharding_table_wise = {
    .name = "table_wise",
    .remote = true,
    .by_size = 1,
    .output = &ts_output_all_to_all,
    .sequence = &ts_output_all_to_all,
    .place = place,
};
