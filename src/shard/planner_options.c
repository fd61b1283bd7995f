/* planner_options.c - the ways in which the deck lets each table be sharded.
 */
#include "base/mem.h"
#include "shard/planner_impl.h"

enum { WIDTHS_MAX = 8 };

/* Kinds that are another one in disguise here are left out unless the deck
 * asks for them: all of them on one rank; those of nodes on one node, or
 * where each rank is a node. */
static bool makes_sense(const ts_sharding_ops *o, const ts_table_config *t,
                        const ts_nodes *n) {
  if (t->sharding != TS_SHARD_AUTO) return true;
  if (ts_table_is_dynamic(t) && !ts_sharding_takes_dynamic(o)) return false;
  if (t->pooling == TS_POOL_NONE && !o->sequence) return false;
  if (n->n_ranks == 1) return ts_sharding_is_whole(o) || t->allow.n > 0;
  if (o->on_node == TS_NODE_ANY) return !o->split_rows || t->rows >= n->n_ranks;
  return t->allow.n > 0 || (n->n_nodes > 1 && n->n_nodes < n->n_ranks);
}

/* Fixed ranks decide a kind that the deck leaves open. */
static bool takes_ranks(const ts_sharding_ops *o, const ts_table_config *t) {
  if (!t->ranks.n || t->sharding != TS_SHARD_AUTO) return true;
  return o->remote && ts_sharding_is_whole(o) == (t->ranks.n == 1);
}

static int widths(int32_t *out, const ts_sharding_ops *o,
                  const ts_table_config *t, int32_t least) {
  int n = 0;
  const bool open = t->sharding == TS_SHARD_AUTO;
  if (!o->split_columns || t->ranks.n) {
    out[0] = 0;
    return 1;
  }
  if (least < 4) least = 4;
  /* From half the columns down; whole ones are another kind. */
  for (int32_t parts = 2; parts <= t->dim / 4 && n < WIDTHS_MAX; parts++)
    if (t->dim % parts == 0 && t->dim / parts % 4 == 0 &&
        t->dim / parts >= least)
      out[n++] = t->dim / parts;
  if (!n && !open) out[n++] = t->dim; /* the deck asks for it all the same */
  return n;
}

static void add_kind(ts_options *o, ts_shard_kind k, const ts_table_config *c,
                     const ts_plan_request *r, int32_t *n) {
  const ts_sharding_ops *ops = ts_sharding_find(k);
  int32_t width[WIDTHS_MAX];
  if (c->sharding != TS_SHARD_AUTO && c->sharding != k) return;
  if (c->sharding == TS_SHARD_AUTO && !ts_plan_allowed(c, k)) return;
  if (!makes_sense(ops, c, r->nodes) || !takes_ranks(ops, c)) return;
  const int m = widths(width, ops, c, r->config->sharding.min_column);
  for (int w = 0; w < m; w++) o->option[(*n)++] = (ts_option){k, width[w]};
}

/* Where options are worth the same the first one is taken: whole tables. */
static ts_err add(ts_options *o, int32_t t, const ts_plan_request *r,
                  int32_t *n) {
  const ts_table_config *c = &r->config->tables[t];
  const int32_t before = *n;
  for (int whole = 1; whole >= 0; whole--)
    for (ts_shard_kind k = TS_SHARD_AUTO + 1; k < TS_SHARD_COUNT; k++)
      if (ts_sharding_is_whole(ts_sharding_find(k)) == whole)
        add_kind(o, k, c, r, n);
  if (*n == before)
    return ts_fail(TS_ERR_DECK,
                   "table %s: no sharding is left that `sharding`, `allow` and "
                   "`ranks` let it have on %d ranks",
                   c->name, r->nodes->n_ranks);
  return TS_OK;
}

ts_err ts_options_list(ts_options *o, const ts_plan_request *r) {
  const int32_t n_tables = r->config->n_tables;
  int32_t n = 0;
  *o = (ts_options){0};
  TS_DO(ts_mem_many(o->option, (int64_t)n_tables * TS_SHARD_COUNT * WIDTHS_MAX,
                    MISC));
  TS_DO(ts_mem_many(o->start, n_tables + 1, MISC));
  for (int32_t t = 0; t < n_tables; t++) {
    TS_DO(add(o, t, r, &n));
    o->start[t + 1] = n;
  }
  return TS_OK;
}

void ts_options_reset(ts_options *o) {
  ts_mem_free(o->option);
  ts_mem_free(o->start);
  *o = (ts_options){0};
}
