/* ebc.c - the sharded collection and its flights. */
#include "shard/ebc.h"

#include <stdlib.h>

#include "base/mem.h"
#include "shard/sharding.h"

static ts_err count_features(ts_ebc *ebc) {
  ts_err err = TS_OK;
  const ts_config *c = ebc->config;
  for (int32_t t = 0; t < c->n_tables; t++)
    ebc->n_features += c->tables[t].features.n;
  TS_TRY(ts_mem_array(&ebc->feature_table, ebc->n_features,
                      sizeof *ebc->feature_table, TS_TAG_MISC));
  int32_t f = 0;
  for (int32_t t = 0; t < c->n_tables; t++)
    for (int32_t i = 0; i < c->tables[t].features.n; i++)
      ebc->feature_table[f++] = t;
done:
  return err;
}

static ts_err create_lots(ts_ebc *ebc) {
  ts_err err = TS_OK;
  TS_TRY(
      ts_mem_array(&ebc->lots, TS_SHARD_COUNT, sizeof *ebc->lots, TS_TAG_MISC));
  for (int k = 0; k < TS_SHARD_COUNT; k++) {
    const ts_sharding_ops *ops = ts_sharding_find((ts_shard_kind)k);
    if (!ops) continue;
    ts_lot *lot = &ebc->lots[ebc->n_lots];
    TS_TRY(ts_lot_create(lot, ebc, ops));
    if (lot->n_features)
      ebc->n_lots++;
    else
      ts_lot_reset(lot);
  }
done:
  return err;
}

/* Where feature I of LOT sits among this rank's groups. */
static void find_slot(ts_route *r, const ts_lot *lot, int32_t i) {
  r->group = r->slot = -1;
  for (int32_t g = 0; g < lot->n_groups; g++)
    for (int32_t s = 0; s < lot->groups[g].n_features; s++)
      if (lot->groups[g].lot_feature[s] == i) {
        r->group = g;
        r->slot = s;
      }
}

static ts_err add_routes(ts_ebc *ebc, int32_t l, int32_t i) {
  ts_err err = TS_OK;
  const ts_lot *lot = &ebc->lots[l];
  const ts_lot_feature *f = &lot->features[i];
  const ts_table_plan *p = &ebc->plan->tables[f->table];
  TS_TRY(
      ts_mem_resize(&ebc->routes, (size_t)ebc->n_routes * sizeof *ebc->routes,
                    (size_t)(ebc->n_routes + p->n_shards) * sizeof *ebc->routes,
                    TS_TAG_MISC));
  for (int32_t k = 0; k < p->n_shards; k++) {
    const ts_shard *s = &p->shards[k];
    ts_route *r = &ebc->routes[ebc->n_routes++];
    *r = (ts_route){.feature = f->feature,
                    .table = f->table,
                    .rank = s->rank,
                    .row0 = s->row0,
                    .n_rows = s->n_rows,
                    .bucketize = lot->ops->bucketize,
                    .weighted = ebc->config->tables[f->table].weighted,
                    .lot = l,
                    .group = -1,
                    .slot = -1};
    if (s->rank == ebc->rank) find_slot(r, lot, i);
  }
done:
  return err;
}

static int by_rank(const void *a, const void *b) {
  const ts_route *x = a, *y = b;
  if (x->rank != y->rank) return x->rank - y->rank;
  return x->feature != y->feature ? x->feature - y->feature
                                  : (x->row0 > y->row0) - (x->row0 < y->row0);
}

static ts_err create_routes(ts_ebc *ebc) {
  ts_err err = TS_OK;
  for (int32_t l = 0; l < ebc->n_lots; l++)
    for (int32_t i = 0; ebc->lots[l].ops->remote && i < ebc->lots[l].n_features;
         i++)
      TS_TRY(add_routes(ebc, l, i));
  if (ebc->n_routes)
    qsort(ebc->routes, (size_t)ebc->n_routes, sizeof *ebc->routes, by_rank);
  TS_TRY(ts_mem_array(&ebc->route_start, ebc->n_ranks + 1,
                      sizeof *ebc->route_start, TS_TAG_MISC));
  for (int32_t i = 0; i < ebc->n_routes; i++)
    ebc->route_start[ebc->routes[i].rank + 1]++;
  for (int r = 0; r < ebc->n_ranks; r++)
    ebc->route_start[r + 1] += ebc->route_start[r];
  for (int32_t i = ebc->route_start[ebc->rank];
       i < ebc->route_start[ebc->rank + 1]; i++) {
    const ts_route *r = &ebc->routes[i];
    ebc->lots[r->lot].groups[r->group].route[r->slot] =
        i - ebc->route_start[ebc->rank];
  }
done:
  return err;
}

ts_err ts_ebc_create(ts_ebc **out, const ts_config *config, const ts_plan *plan,
                     ts_world *world, ts_device *device,
                     const ts_kernels *kernels) {
  ts_err err = TS_OK;
  ts_ebc *ebc = NULL;
  TS_TRY(ts_mem_alloc(&ebc, sizeof *ebc, TS_TAG_MISC));
  *ebc = (ts_ebc){.config = config,
                  .plan = plan,
                  .world = world,
                  .device = device,
                  .kernels = kernels,
                  .rank = ts_world_rank(world),
                  .n_ranks = ts_world_size(world)};
  TS_TRY(count_features(ebc));
  TS_TRY(ts_comm_create(world, &ebc->input_comm, TS_GROUP_WORLD, "input dist"));
  TS_TRY(create_lots(ebc));
  TS_TRY(create_routes(ebc));
  *out = ebc;
  ebc = NULL;
done:
  ts_ebc_destroy(ebc);
  return err;
}

void ts_ebc_destroy(ts_ebc *ebc) {
  if (!ebc) return;
  for (int32_t l = 0; l < ebc->n_lots; l++) ts_lot_reset(&ebc->lots[l]);
  ts_mem_free(ebc->lots);
  ts_mem_free(ebc->routes);
  ts_mem_free(ebc->route_start);
  ts_mem_free(ebc->feature_table);
  ts_comm_destroy(ebc->input_comm);
  ts_mem_free(ebc);
}

ts_err ts_ebc_init(ts_ebc *ebc) {
  ts_err err = TS_OK;
  for (int32_t l = 0; l < ebc->n_lots; l++)
    for (int32_t g = 0; g < ebc->lots[l].n_groups; g++)
      TS_TRY(ts_tbe_init(ebc->lots[l].groups[g].tbe));
done:
  return err;
}

int32_t ts_ebc_n_features(const ts_ebc *ebc) {
  return ebc->n_features;
}

static ts_err shards_of_group(ts_ebc *ebc, ts_tbe *tbe, ts_ebc_shard_fn fn,
                              void *arg) {
  ts_err err = TS_OK;
  for (int32_t t = 0; t < ts_tbe_n_tables(tbe); t++) {
    const ts_tbe_table *table = ts_tbe_table_of(tbe, t);
    const ts_table_plan *p = &ebc->plan->tables[table->table_id];
    for (int32_t k = 0; k < p->n_shards; k++)
      if (p->shards[k].rank == ebc->rank)
        TS_TRY(fn(arg, table->table_id, &p->shards[k], tbe, t));
  }
done:
  return err;
}

ts_err ts_ebc_each_shard(ts_ebc *ebc, ts_ebc_shard_fn fn, void *arg) {
  ts_err err = TS_OK;
  for (int32_t l = 0; l < ebc->n_lots; l++)
    for (int32_t g = 0; g < ebc->lots[l].n_groups; g++)
      TS_TRY(shards_of_group(ebc, ebc->lots[l].groups[g].tbe, fn, arg));
done:
  return err;
}

ts_ebc_stat ts_ebc_stat_of(const ts_ebc *ebc) {
  ts_ebc_stat stat = ebc->stat;
  stat.input_bytes = ts_comm_stat_of(ebc->input_comm).sent_bytes;
  for (int32_t l = 0; l < ebc->n_lots; l++) {
    const ts_lot *lot = &ebc->lots[l];
    if (lot->comm) stat.output_bytes += ts_comm_stat_of(lot->comm).sent_bytes;
    for (int32_t g = 0; g < lot->n_groups; g++)
      stat.local_bytes += ts_tbe_bytes(lot->groups[g].tbe);
  }
  return stat;
}
