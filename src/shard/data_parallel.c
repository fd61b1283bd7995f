/* data_parallel.c - each table whole on every rank.
 *
 * Nothing travels on the way in: a rank looks up its own samples.  On the way
 * back the distinct rows' gradients do (replicas.c). */
#include "base/mem.h"
#include "shard/sharding.h"

static ts_err place(ts_table_plan *p, const ts_table_config *t,
                    const ts_placement *at) {
  if (t->ranks.n)
    return ts_fail(
        TS_ERR_DECK,
        "table %s: data_parallel is on every rank and takes no `ranks`",
        t->name);
  TS_DO(ts_mem_many(p->shards, at->nodes->n_ranks, MISC));
  for (int r = 0; r < at->nodes->n_ranks; r++)
    p->shards[p->n_shards++] = (ts_shard){r, 0, t->rows, 0, t->dim};
  return TS_OK;
}

extern const ts_sharding_ops ts_sharding_data_parallel;
const ts_sharding_ops ts_sharding_data_parallel = {
    .name = "data_parallel",
    .by_size = 7,
    .output = &ts_output_local,
    .sequence = &ts_output_local,
    .place = place,
};
