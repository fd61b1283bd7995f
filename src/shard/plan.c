/* plan.c - plans, and the plain one by sizes. */
#include "shard/plan.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "shard/sharding.h"
#include "sparse/row_optim.h"

/* Tables up to this size are cheaper to keep on every rank than to ask for. */
enum { REPLICATE_BYTES = 64 * 1024 };

ts_err ts_plan_create(ts_plan **out, int32_t n_tables, int n_ranks) {
  ts_err err = TS_OK;
  ts_plan *p = NULL;
  TS_TRY(ts_mem_alloc(&p, sizeof *p, TS_TAG_MISC));
  TS_TRY(ts_mem_many(p->tables, n_tables, MISC));
  p->n_tables = n_tables;
  p->n_ranks = n_ranks;
  *out = p;
  p = NULL;
done:
  ts_plan_destroy(p);
  return err;
}

void ts_plan_destroy(ts_plan *p) {
  if (!p) return;
  for (int32_t i = 0; p->tables && i < p->n_tables; i++)
    ts_mem_free(p->tables[i].shards);
  ts_mem_free(p->tables);
  ts_mem_free(p);
}

/* The type that "auto" gives a table: tiny ones everywhere, those over a
 * rank's fair share by rows, the rest whole. */
static ts_shard_kind choose(const ts_table_config *t, int64_t fair_share,
                            int n_ranks) {
  const int64_t bytes = ts_table_bytes(t);
  if (n_ranks == 1) return TS_SHARD_TABLE_WISE;
  if (t->ranks.n)
    return t->ranks.n > 1 ? TS_SHARD_ROW_WISE : TS_SHARD_TABLE_WISE;
  if (bytes <= REPLICATE_BYTES) return TS_SHARD_DATA_PARALLEL;
  if (bytes > fair_share && t->rows >= n_ranks) return TS_SHARD_ROW_WISE;
  return TS_SHARD_TABLE_WISE;
}

/* What is done to whole rows in the row update is done where a row is whole
 * and in one place. */
static bool has_norms(const ts_table_config *t, ts_shard_kind kind) {
  const ts_sharding_ops *o = ts_sharding_find(kind);
  return !(t->max_norm > 0) || (o && o->remote && !o->split_columns);
}

/* A row's scale and bias are those of all its columns. */
static bool has_scales(const ts_table_config *t, ts_shard_kind kind) {
  const ts_sharding_ops *o = ts_sharding_find(kind);
  return !ts_dtype_has_scale(t->dtype) || !o || !o->split_columns;
}

bool ts_plan_allowed(const ts_table_config *t, ts_shard_kind kind) {
  if (ts_shard_kind_is_replicated(kind) && ts_table_is_slow(t)) return false;
  if (!has_norms(t, kind) || !has_scales(t, kind)) return false;
  for (int32_t i = 0; i < t->allow.n; i++)
    if (!strcmp(t->allow.item[i], ts_shard_kind_name(kind))) return true;
  return t->allow.n == 0;
}

ts_err ts_plan_check_kind(const ts_table_config *t, ts_shard_kind kind) {
  if (!has_norms(t, kind))
    return ts_fail(TS_ERR_DECK,
                   "table %s: max_norm is not with sharding %s: a row's norm "
                   "is known where the row is whole and on one rank, as with "
                   "table_wise, row_wise and table_row_wise",
                   t->name, ts_shard_kind_name(kind));
  if (!has_scales(t, kind))
    return ts_fail(TS_ERR_DECK,
                   "table %s: dtype %s is not with sharding %s: a row has one "
                   "scale and one bias, so all its columns are on one rank, as "
                   "with table_wise, row_wise and table_row_wise",
                   t->name, ts_dtype_name(t->dtype), ts_shard_kind_name(kind));
  if (!ts_shard_kind_is_replicated(kind) || !ts_table_is_slow(t)) return TS_OK;
  return ts_fail(TS_ERR_DECK,
                 "table %s: every rank has all of a %s table: it can't be %s",
                 t->name, ts_shard_kind_name(kind), ts_table_kernel(t));
}

static ts_err choose_allowed(ts_shard_kind *out, const ts_table_config *t,
                             int64_t fair_share, int n_ranks) {
  const ts_sharding_ops *best = NULL;
  *out = choose(t, fair_share, n_ranks);
  if (ts_plan_allowed(t, *out)) return TS_OK;
  for (ts_shard_kind k = TS_SHARD_AUTO + 1; k < TS_SHARD_COUNT; k++) {
    const ts_sharding_ops *ops = ts_sharding_find(k);
    if (!ts_plan_allowed(t, k) || (best && ops->by_size > best->by_size))
      continue;
    best = ops;
    *out = k;
  }
  if (best) return TS_OK;
  return ts_fail(TS_ERR_DECK, "table %s: `allow` names no sharding", t->name);
}

static int by_size(const void *a, const void *b) {
  const ts_sized *x = a, *y = b;
  if (x->size != y->size) return x->size > y->size ? -1 : 1;
  return x->number - y->number;
}

void ts_sort_sized(ts_sized *x, int32_t n) {
  if (n > 0) qsort(x, (size_t)n, sizeof *x, by_size);
}

ts_err ts_plan_place(ts_table_plan *out, ts_shard_kind kind,
                     const ts_table_config *t,
                     const struct ts_placement *place) {
  const ts_sharding_ops *ops = ts_sharding_find(kind);
  const int n_ranks = place->nodes->n_ranks;
  if (!ops)
    return ts_fail(TS_ERR_DECK, "table %s: sharding %s is not in this version",
                   t->name, ts_shard_kind_name(kind));
  TS_DO(ts_plan_check_kind(t, kind));
  for (int32_t k = 0; k < t->ranks.n; k++)
    if (t->ranks.item[k] < 0 || t->ranks.item[k] >= n_ranks)
      return ts_fail(TS_ERR_DECK,
                     "table %s: ranks names rank %" PRId64
                     ", but this run has ranks 0 to %d",
                     t->name, t->ranks.item[k], n_ranks - 1);
  ts_mem_free(out->shards);
  *out = (ts_table_plan){.kind = kind};
  return ops->place(out, t, place);
}

static ts_err place_table(ts_plan *p, const ts_config *c, int32_t i,
                          int64_t fair_share, const ts_placement *place,
                          double *load) {
  const ts_table_config *t = &c->tables[i];
  ts_shard_kind kind = t->sharding;
  if (kind == TS_SHARD_AUTO)
    TS_DO(choose_allowed(&kind, t, fair_share, p->n_ranks));
  TS_DO(ts_plan_place(&p->tables[i], kind, t, place));
  for (int32_t k = 0; k < p->tables[i].n_shards; k++) {
    const ts_shard *s = &p->tables[i].shards[k];
    load[s->rank] += (double)ts_shard_bytes(t, s);
  }
  return TS_OK;
}

ts_err ts_plan_make(ts_plan **out, const ts_config *c, const ts_nodes *nodes) {
  ts_err err = TS_OK;
  ts_plan *p = NULL;
  ts_sized *order = NULL;
  double *load = NULL;
  ts_placement place = {.nodes = nodes, .min_column = c->sharding.min_column};
  int64_t total = 0;
  TS_TRY(ts_plan_create(&p, c->n_tables, nodes->n_ranks));
  p->n_nodes = nodes->n_nodes;
  TS_TRY(ts_mem_many(order, c->n_tables, MISC));
  TS_TRY(ts_mem_many(load, nodes->n_ranks, MISC));
  place.load = load;
  for (int32_t i = 0; i < c->n_tables; i++) {
    const int64_t bytes = ts_table_bytes(&c->tables[i]);
    order[i] = (ts_sized){(double)bytes, i};
    total += bytes;
  }
  ts_sort_sized(order, c->n_tables);
  for (int32_t i = 0; i < c->n_tables; i++)
    TS_TRY(place_table(p, c, order[i].number, total / nodes->n_ranks + 1,
                       &place, load));
  *out = p;
  p = NULL;
done:
  ts_plan_destroy(p);
  ts_mem_free(order);
  ts_mem_free(load);
  return err;
}
