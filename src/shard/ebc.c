/* ebc.c - the sharded collection and its batches in flight. */
#include "shard/ebc.h"

#include <stdlib.h>
#include <string.h>

#include "base/features.h"
#include "base/mem.h"
#include "base/tasks.h"
#include "shard/message.h"

static ts_err count_features(ts_ebc *ebc) {
  const ts_config *c = ebc->config;
  for (int32_t t = 0; t < c->n_tables; t++)
    ebc->n_features += c->tables[t].features.n;
  TS_DO(ts_mem_many(ebc->feature_table, ebc->n_features, MISC));
  int32_t f = 0;
  for (int32_t t = 0; t < c->n_tables; t++)
    for (int32_t i = 0; i < c->tables[t].features.n; i++)
      ebc->feature_table[f++] = t;
  return TS_OK;
}

/* Features with bags of their own number: data.dedup's, and sequences. */
static ts_err find_variable(ts_ebc *ebc) {
  const ts_config *c = ebc->config;
  TS_DO(ts_mem_many(ebc->once, ebc->n_features, MISC));
  for (int32_t k = 0; k < c->model.n_tasks; k++)
    if (ts_task_is_of_items(&c->model.tasks[k]) &&
        !ts_task_has_tower(c, &c->model.tasks[k]))
      ebc->once[ts_task_candidates(c, &c->model.tasks[k])] = true;
  const ts_strings *dedup = &c->data.dedup;
  int32_t f = 0, found = 0;
  TS_DO(ts_mem_many(ebc->variable, ebc->n_features, MISC));
  for (int32_t t = 0; t < c->n_tables; t++)
    for (int32_t i = 0; i < c->tables[t].features.n; i++, f++) {
      bool named = false;
      for (int32_t k = 0; k < dedup->n; k++)
        named |= ts_feature_is(&c->tables[t], i, dedup->item[k]);
      found += named;
      ebc->variable[f] = named || c->tables[t].pooling == TS_POOL_NONE
                             ? ebc->n_variable++
                             : -1;
    }
  if (found < dedup->n)
    return ts_fail(TS_ERR_DECK, "data.dedup names a feature that no table has");
  return TS_OK;
}

/* Features of one name, F and G, have the same ids on their way: those of
 * distinct bags are each table's own. */
static bool has_same_ids(const ts_ebc *ebc, int32_t f, int32_t g) {
  const int32_t a = ebc->feature_table[f], b = ebc->feature_table[g];
  return ts_ids_alike(&ebc->config->tables[a], &ebc->config->tables[b]) &&
         ebc->variable[f] < 0 && ebc->variable[g] < 0 &&
         ts_sharding_same_parts(&ebc->plan->tables[a], &ebc->plan->tables[b]);
}

static ts_err find_same_ids(ts_ebc *ebc) {
  ts_feature_columns m;
  TS_DO(ts_mem_many(ebc->ids_of, ebc->n_features, MISC));
  TS_DO(ts_feature_columns_create(&m, ebc->config));
  for (int32_t f = 0; f < ebc->n_features; f++) {
    int32_t g = m.first[f];
    while (g < f && (m.first[g] != m.first[f] || !has_same_ids(ebc, f, g))) g++;
    ebc->ids_of[f] = g;
  }
  ts_feature_columns_reset(&m);
  return TS_OK;
}

/* Whether the host counts; on all ranks alike. */
static ts_err choose_counts(ts_ebc *ebc) {
  const ts_input_dist asked = ebc->config->comm.input_dist;
  if (!ts_device_runs_at_once(ebc->device)) return TS_OK;
  ebc->counts = asked != TS_INPUT_EXACT && !ebc->n_variable;
  if (asked != TS_INPUT_BOUNDED || ebc->counts) return TS_OK;
  return ts_fail(TS_ERR_DECK,
                 "comm.input_dist = \"bounded\" can't be with data.dedup or "
                 "with sequences (pooling \"none\"): how much of them travels "
                 "is known once the GPU has found what is distinct; \"auto\" "
                 "waits for that");
}

static ts_err create_lots(ts_ebc *ebc) {
  TS_DO(ts_mem_many(ebc->shardings, 4 * TS_SHARD_COUNT, MISC));
  for (int k = 0; k < 4 * TS_SHARD_COUNT; k++) {
    const ts_sharding_ops *ops = ts_sharding_find((ts_shard_kind)(k / 4));
    if (!ops) continue;
    ts_sharding *sharding = &ebc->shardings[ebc->n_shardings++];
    TS_DO(ts_sharding_create(sharding, ebc, ops, k % 2, k % 4 > 1));
    if (sharding->n_views) continue;
    ts_sharding_reset(sharding);
    ebc->n_shardings--;
  }
  return TS_OK;
}

/* Ids of feature F for SHARD, unless an earlier shard takes the same. */
static void add_route(ts_ebc *ebc, const ts_sharding *sharding, int32_t f,
                      int32_t k) {
  const int32_t t = ebc->feature_table[f];
  const ts_table_plan *p = &ebc->plan->tables[t];
  const ts_shard *s = &p->shards[k];
  for (int32_t i = 0; i < k; i++)
    if (p->shards[i].rank == s->rank && p->shards[i].row0 == s->row0 &&
        p->shards[i].n_rows == s->n_rows)
      return;
  ebc->routes[ebc->n_routes++] =
      (ts_route){.feature = ebc->ids_of[f],
                 .table = t,
                 .rank = s->rank,
                 .row0 = s->row0,
                 .n_rows = s->n_rows,
                 .part = k,
                 .split = sharding->ops->split_rows,
                 .sequence = sharding->sequence,
                 .dynamic = ts_table_is_dynamic(&ebc->config->tables[t]),
                 .weighted = ebc->config->tables[t].weighted,
                 .positions = sharding->ops->split_rows &&
                              ebc->config->tables[t].max_length > 0};
}

static ts_err add_routes(ts_ebc *ebc, const ts_sharding *sharding) {
  for (int32_t i = 0; i < sharding->n_views; i++) {
    const int32_t n = ebc->plan->tables[sharding->views[i].table].n_shards;
    TS_DO(ts_mem_resize(
        &ebc->routes, (size_t)ebc->n_routes * sizeof *ebc->routes,
        (size_t)(ebc->n_routes + n) * sizeof *ebc->routes, TS_TAG_MISC));
    for (int32_t k = 0; k < n; k++)
      add_route(ebc, sharding, sharding->views[i].feature, k);
  }
  return TS_OK;
}

static int by_rank(const void *a, const void *b) {
  const ts_route *x = a, *y = b;
  if (x->rank != y->rank) return x->rank - y->rank;
  if (x->feature != y->feature) return x->feature - y->feature;
  if (x->row0 != y->row0) return x->row0 < y->row0 ? -1 : 1;
  if (x->n_rows != y->n_rows) return x->n_rows < y->n_rows ? -1 : 1;
  return x->split - y->split;
}

/* Ids of several tables take one route to a rank. */
static void sort_routes(ts_ebc *ebc) {
  int32_t n = 0;
  if (ebc->n_routes)
    qsort(ebc->routes, (size_t)ebc->n_routes, sizeof *ebc->routes, by_rank);
  for (int32_t i = 0; i < ebc->n_routes; i++)
    if (!n || by_rank(&ebc->routes[i], &ebc->routes[n - 1]) != 0)
      ebc->routes[n++] = ebc->routes[i];
  ebc->n_routes = n;
}

/* The route that feeds each slot of this rank's groups. */
static ts_err feed_groups(ts_ebc *ebc, ts_sharding *sharding) {
  const ts_route *own = ebc->routes + ebc->route_start[ebc->rank];
  const int32_t n =
      ebc->route_start[ebc->rank + 1] - ebc->route_start[ebc->rank];
  for (int32_t g = 0; g < sharding->n_groups; g++)
    for (int32_t s = 0; s < sharding->groups[g].n_slots; s++) {
      const ts_piece *p = &sharding->pieces[sharding->groups[g].piece[s]];
      const ts_shard *shard = ts_sharding_own_shard(sharding, p);
      int32_t i = 0;
      while (i < n &&
             (own[i].feature != ebc->ids_of[p->feature] ||
              own[i].row0 != shard->row0 || own[i].n_rows != shard->n_rows))
        i++;
      if (i == n) return ts_fail(TS_ERR_INTERNAL, "a shard without a route");
      sharding->groups[g].route[s] = i;
    }
  return TS_OK;
}

static ts_err create_routes(ts_ebc *ebc) {
  for (int32_t l = 0; l < ebc->n_shardings; l++)
    if (ebc->shardings[l].travels) TS_DO(add_routes(ebc, &ebc->shardings[l]));
  sort_routes(ebc);
  TS_DO(ts_mem_many(ebc->route_start, ebc->n_ranks + 1, MISC));
  for (int32_t i = 0; i < ebc->n_routes; i++)
    ebc->route_start[ebc->routes[i].rank + 1]++;
  for (int r = 0; r < ebc->n_ranks; r++)
    ebc->route_start[r + 1] += ebc->route_start[r];
  for (int32_t l = 0; l < ebc->n_shardings; l++)
    if (ebc->shardings[l].travels) TS_DO(feed_groups(ebc, &ebc->shardings[l]));
  return ts_splits_create(ebc);
}

ts_err ts_ebc_create(ts_ebc **out, const ts_config *config, const ts_plan *plan,
                     const ts_nodes *nodes, ts_world *world, ts_device *device,
                     const ts_kernels *kernels) {
  ts_err err = TS_OK;
  ts_ebc *ebc = NULL;
  TS_TRY(ts_mem_alloc(&ebc, sizeof *ebc, TS_TAG_MISC));
  *ebc = (ts_ebc){.config = config,
                  .plan = plan,
                  .nodes = nodes,
                  .world = world,
                  .device = device,
                  .kernels = kernels,
                  .rank = ts_world_rank(world),
                  .n_ranks = ts_world_size(world)};
  TS_TRY(count_features(ebc));
  TS_TRY(find_variable(ebc));
  TS_TRY(find_same_ids(ebc));
  TS_TRY(choose_counts(ebc));
  TS_TRY(ts_processors_create(ebc));
  TS_TRY(ts_codec_find(&ebc->forward, config->sharding.comm_dtype_forward,
                       "sharding.comm_dtype_forward"));
  TS_TRY(ts_codec_find(&ebc->backward, config->sharding.comm_dtype_backward,
                       "sharding.comm_dtype_backward"));
  TS_TRY(ts_comm_create_host(world, &ebc->input_comm, TS_GROUP_WORLD,
                             "input dist"));
  if (ts_device_is_discrete(device) && ebc->n_ranks > 1)
    TS_TRY(ts_comm_create(world, &ebc->section_comm, TS_GROUP_WORLD,
                          "input sections"));
  TS_TRY(ts_rooms_create(&ebc->input_rooms, ebc->n_ranks));
  TS_TRY(create_lots(ebc));
  TS_TRY(ts_replicas_create(ebc));
  TS_TRY(ts_dense_rows_start(ebc));
  TS_TRY(create_routes(ebc));
  *out = ebc;
  ebc = NULL;
done:
  ts_ebc_destroy(ebc);
  return err;
}

void ts_ebc_destroy(ts_ebc *ebc) {
  if (!ebc) return;
  for (int32_t l = 0; l < ebc->n_shardings; l++)
    ts_sharding_reset(&ebc->shardings[l]);
  ts_processors_destroy(ebc);
  ts_mem_free(ebc->shardings);
  ts_pool_reset(&ebc->pool);
  ts_splits_destroy(ebc);
  ts_mem_free(ebc->ids_of);
  ts_mem_free(ebc->routes);
  ts_mem_free(ebc->route_start);
  ts_mem_free(ebc->seen);
  ts_mem_free(ebc->feature_table);
  ts_mem_free(ebc->variable);
  ts_mem_free(ebc->once);
  ts_comm_destroy(ebc->input_comm);
  ts_comm_destroy(ebc->section_comm);
  ts_rooms_reset(&ebc->input_rooms);
  ts_mem_free(ebc->pooling);
  ts_comm_destroy(ebc->dense_comm);
  ts_buffer_reset(&ebc->dense_stats);
  ts_mem_free(ebc);
}

ts_err ts_ebc_init(ts_ebc *ebc) {
  for (int32_t l = 0; l < ebc->n_shardings; l++)
    for (int32_t g = 0; g < ebc->shardings[l].n_groups; g++)
      TS_DO(ts_tbe_init(ebc->shardings[l].groups[g].tbe));
  for (int32_t k = 0; k < ebc->params.n; k++)
    TS_DO(ts_param_init_constant(ebc->params.item[k], 1.0f));
  return TS_OK;
}

int32_t ts_ebc_n_features(const ts_ebc *ebc) {
  return ebc->n_features;
}

bool ts_ebc_counts(const ts_ebc *ebc) {
  return ebc->counts;
}

ts_params *ts_ebc_params(ts_ebc *ebc) {
  return &ebc->params;
}

bool ts_ebc_has_processors(const ts_ebc *ebc) {
  return ebc->params.n > 0;
}

void ts_ebc_accumulate(ts_ebc *ebc, bool more) {
  ebc->more = more;
}

void ts_ebc_drop(ts_ebc *ebc) {
  for (int32_t l = 0; l < ebc->n_shardings; l++)
    for (int32_t g = 0; g < ebc->shardings[l].n_groups; g++)
      ts_tbe_drop(ebc->shardings[l].groups[g].tbe);
}

static ts_err shards_of_group(ts_ebc *ebc, ts_tbe *tbe, ts_ebc_shard_fn fn,
                              void *arg) {
  for (int32_t t = 0; t < ts_tbe_n_tables(tbe); t++) {
    const ts_tbe_table *table = ts_tbe_table_of(tbe, t);
    const ts_table_plan *p = &ebc->plan->tables[table->table_id];
    for (int32_t k = 0; k < p->n_shards; k++)
      if (p->shards[k].rank == ebc->rank &&
          p->shards[k].row0 == table->first_row &&
          p->shards[k].col0 == table->col0)
        TS_DO(fn(arg, table->table_id, &p->shards[k], tbe, t));
  }
  return TS_OK;
}

ts_err ts_ebc_each_shard(ts_ebc *ebc, ts_ebc_shard_fn fn, void *arg) {
  for (int32_t l = 0; l < ebc->n_shardings; l++)
    for (int32_t g = 0; g < ebc->shardings[l].n_groups; g++)
      TS_DO(shards_of_group(ebc, ebc->shardings[l].groups[g].tbe, fn, arg));
  return TS_OK;
}

ts_ebc_stat ts_ebc_stat_of(const ts_ebc *ebc) {
  ts_ebc_stat stat = ebc->stat;
  const ts_comm_stat input = ts_comm_stat_of(ebc->input_comm);
  stat.input_bytes = input.sent_bytes;
  if (ebc->section_comm)
    stat.input_bytes += ts_comm_stat_of(ebc->section_comm).sent_bytes;
  stat.n_inputs = input.n_ops;
  stat.n_input_rounds = input.n_rounds;
  for (int32_t l = 0; l < ebc->n_shardings; l++) {
    const ts_sharding *sharding = &ebc->shardings[l];
    if (sharding->comm)
      stat.output_bytes += ts_comm_stat_of(sharding->comm).sent_bytes;
    if (sharding->back_comm)
      stat.output_bytes += ts_comm_stat_of(sharding->back_comm).sent_bytes;
    if (sharding->node_comm)
      stat.output_bytes += ts_comm_stat_of(sharding->node_comm).sent_bytes;
    for (int32_t g = 0; g < sharding->n_groups; g++)
      stat.local_bytes += ts_tbe_bytes(sharding->groups[g].tbe);
  }
  return stat;
}

void ts_ebc_stat_put(ts_ebc *ebc, const ts_ebc_stat *stat) {
  ebc->stat = *stat;
  ebc->stat.output_bytes = ebc->stat.local_bytes = 0; /* counted elsewhere */
}
