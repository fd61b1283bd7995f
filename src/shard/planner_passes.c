/* planner_passes.c - how many passes bring a batch's rows into fast memory:
 * each needs scratch for its part of the ids. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "shard/planner_impl.h"
#include "sparse/cache.h"

enum { PASSES_MAX = 1000 }; /* as in decks */

static bool is_auto(const ts_table_config *t) {
  return ts_table_is_cached(t) && t->cache.passes == 0;
}

double ts_passes_scratch(double *own, const ts_cost *c, const ts_plan *p) {
  double most = 0;
  for (int32_t t = 0; t < p->n_tables; t++) {
    const ts_table_plan *x = &p->tables[t];
    if (!is_auto(&c->request->config->tables[t])) continue;
    for (int32_t k = 0; k < x->n_shards; k++)
      own[x->shards[k].rank] +=
          TS_CACHE_SCRATCH_BYTES * ts_cost_ids(c, t, x->kind, &x->shards[k]);
  }
  for (int32_t r = 0; r < p->n_ranks; r++) most = fmax(most, own[r]);
  return most;
}

ts_err ts_plan_passes(int32_t *passes, const ts_plan *p,
                      const ts_plan_report *r, const ts_plan_request *q) {
  ts_err err = TS_OK;
  ts_cost c = {0};
  double *own = NULL;
  TS_TRY(ts_cost_create(&c, q));
  TS_TRY(ts_mem_many(own, p->n_ranks, MISC));
  const double needed = ts_passes_scratch(own, &c, p);
  const double left = r->limit - r->memory_bytes;
  const double most = ts_cache_passes_for(PASSES_MAX, q->discrete);
  const double fewest = left > 0 ? ceil(needed / left) : most;
  *passes = (int32_t)fmin(fmax(fewest, 1), most);
done:
  ts_mem_free(own);
  ts_cost_reset(&c);
  return err;
}
