/* cost_ids.c - ids of a feature in several tables, which cross once where those
 * go to the same place (shard/ebc.c). */
#include <string.h>

#include "base/features.h"
#include "base/mem.h"
#include "shard/cost.h"
#include "shard/sharding.h"

/* Bags of its own number, whose ids no other table takes. */
static bool is_variable(const ts_config *c, const ts_table_config *t,
                        int32_t i) {
  bool named = t->pooling == TS_POOL_NONE;
  for (int32_t k = 0; k < c->data.dedup.n; k++)
    named |= ts_feature_is(t, i, c->data.dedup.item[k]);
  return named;
}

/* Links features of one column whose ids are the same. */
static void link_alike(ts_cost *c, const ts_feature_columns *m) {
  const ts_config *deck = c->request->config;
  for (int32_t f = 0; f < m->n_features; f++) {
    ts_cost_feature *x = &c->features[f];
    x->next = f;
    for (int32_t g = m->first[f]; !x->variable && g < f; g++)
      if (m->first[g] == m->first[f] && !c->features[g].variable &&
          ts_ids_alike(&deck->tables[x->table],
                       &deck->tables[c->features[g].table])) {
        x->next = c->features[g].next;
        c->features[g].next = f;
        break;
      }
  }
}

ts_err ts_cost_features_create(ts_cost *c) {
  const ts_config *deck = c->request->config;
  ts_feature_columns m;
  int32_t f = 0;
  TS_DO(ts_mem_many(c->features, ts_feature_count(deck) + 1, MISC));
  for (int32_t t = 0; t < deck->n_tables; t++) {
    c->tables[t].first = f;
    for (int32_t i = 0; i < deck->tables[t].features.n; i++, f++)
      c->features[f] =
          (ts_cost_feature){.table = t,
                            .pooling = c->request->stats[f].pooling,
                            .variable = is_variable(deck, &deck->tables[t], i)};
  }
  TS_DO(ts_feature_columns_create(&m, deck));
  link_alike(c, &m);
  ts_feature_columns_reset(&m);
  return TS_OK;
}

static bool has_rank(const ts_table_plan *p, int rank) {
  for (int32_t k = 0; k < p->n_shards; k++)
    if (p->shards[k].rank == rank) return true;
  return false;
}

/* Whether shard K of table T gets feature F's ids for one of the first N
 * tables. */
static bool is_brought(const ts_cost *c, const ts_plan *p, int32_t t, int32_t n,
                       int32_t f, int32_t k) {
  const ts_table_plan *own = &p->tables[t];
  for (int32_t g = c->features[f].next; g != f; g = c->features[g].next) {
    const int32_t u = c->features[g].table;
    const ts_table_plan *other = &p->tables[u];
    if (u != t && u < n && other->n_shards &&
        !ts_shard_kind_is_replicated(other->kind) &&
        ts_sharding_same_parts(own, other) &&
        has_rank(other, own->shards[k].rank))
      return true;
  }
  return false;
}

/* Shards of rows are brought all or none: one stands for them. */
ts_cost_sent ts_cost_brought(const ts_cost *c, const ts_plan *p, int32_t t,
                             int32_t n) {
  ts_cost_sent x = {0};
  const ts_table_plan *own = &p->tables[t];
  const int32_t n_parts =
      ts_sharding_find(own->kind)->split_rows ? 1 : own->n_shards;
  const int32_t first = c->tables[t].first;
  const int32_t end = first + c->request->config->tables[t].features.n;
  for (int32_t f = first; f < end; f++)
    for (int32_t k = 0; c->features[f].next != f && k < n_parts; k++) {
      if (!is_brought(c, p, t, n, f, k)) continue;
      x.ids += c->features[f].pooling / n_parts;
      x.bags += 1.0 / n_parts;
    }
  return x;
}

void ts_cost_prefer(double *at, const ts_cost *c, const ts_plan *p, int32_t t) {
  const ts_cost_table *x = &c->tables[t];
  const int32_t end = x->first + c->request->config->tables[t].features.n;
  for (int32_t f = x->first; f < end; f++)
    for (int32_t g = c->features[f].next; g != f; g = c->features[g].next) {
      const ts_table_plan *other = &p->tables[c->features[g].table];
      const ts_sharding_ops *ops = ts_sharding_find(other->kind);
      if (!other->n_shards || !ts_sharding_is_whole(ops)) continue;
      if (!(x->ids > 0)) continue;
      at[other->shards[0].rank] -=
          ts_cost_ids_ms(c, t) * c->features[f].pooling / x->ids;
    }
}
