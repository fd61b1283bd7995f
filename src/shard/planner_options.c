/* planner_options.c - the ways in which the deck lets each table be sharded.
 */
#include "base/mem.h"
#include "shard/planner_impl.h"

static const ts_shard_kind order[] = {
    TS_SHARD_TABLE_WISE,  TS_SHARD_DATA_PARALLEL,  TS_SHARD_ROW_WISE,
    TS_SHARD_COLUMN_WISE, TS_SHARD_TABLE_ROW_WISE, TS_SHARD_TABLE_COLUMN_WISE,
    TS_SHARD_GRID};
enum { N_KINDS = sizeof order / sizeof *order, WIDTHS_MAX = 8 };

static bool cuts_columns(ts_shard_kind k) {
  return k == TS_SHARD_COLUMN_WISE || k == TS_SHARD_TABLE_COLUMN_WISE ||
         k == TS_SHARD_GRID;
}

/* Kinds that are another one in disguise here are left out unless the deck
 * asks for them: all of them on one rank; those of nodes on one node, or
 * where each rank is a node. */
static bool makes_sense(ts_shard_kind k, const ts_table_config *t,
                        const ts_nodes *n) {
  if (t->sharding != TS_SHARD_AUTO) return true;
  if (t->pooling == TS_POOL_NONE && !ts_sharding_find(k)->sequence)
    return false;
  if (n->n_ranks == 1) return k == TS_SHARD_TABLE_WISE || t->allow.n > 0;
  const bool of_nodes = k == TS_SHARD_TABLE_ROW_WISE ||
                        k == TS_SHARD_TABLE_COLUMN_WISE || k == TS_SHARD_GRID;
  if (of_nodes && t->allow.n == 0 &&
      (n->n_nodes == 1 || n->n_nodes == n->n_ranks))
    return false;
  if (k == TS_SHARD_ROW_WISE && t->rows < n->n_ranks) return false;
  return true;
}

/* Fixed ranks decide a kind that the deck leaves open. */
static bool takes_ranks(ts_shard_kind k, const ts_table_config *t) {
  if (!t->ranks.n || t->sharding != TS_SHARD_AUTO) return true;
  if (k == TS_SHARD_DATA_PARALLEL) return false;
  return (k == TS_SHARD_TABLE_WISE) == (t->ranks.n == 1);
}

static int widths(int32_t *out, ts_shard_kind k, const ts_table_config *t,
                  int32_t least) {
  int n = 0;
  const bool open = t->sharding == TS_SHARD_AUTO;
  if (!cuts_columns(k) || t->ranks.n) {
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

static ts_err add(ts_options *o, int32_t t, const ts_plan_request *r,
                  int32_t *n) {
  const ts_table_config *c = &r->config->tables[t];
  const int32_t before = *n;
  for (int i = 0; i < N_KINDS; i++) {
    const ts_shard_kind k = order[i];
    int32_t width[WIDTHS_MAX];
    if (!ts_sharding_find(k)) continue;
    if (c->sharding != TS_SHARD_AUTO && c->sharding != k) continue;
    if (c->sharding == TS_SHARD_AUTO && !ts_plan_allowed(c, k)) continue;
    if (!makes_sense(k, c, r->nodes) || !takes_ranks(k, c)) continue;
    const int m = widths(width, k, c, r->config->sharding.min_column);
    for (int w = 0; w < m; w++) o->option[(*n)++] = (ts_option){k, width[w]};
  }
  if (*n == before)
    return ts_fail(TS_ERR_DECK,
                   "table %s: no sharding is left that `sharding`, `allow` and "
                   "`ranks` let it have on %d ranks",
                   c->name, r->nodes->n_ranks);
  return TS_OK;
}

ts_err ts_options_list(ts_options *o, const ts_plan_request *r) {
  ts_err err = TS_OK;
  const int32_t n_tables = r->config->n_tables;
  int32_t n = 0;
  *o = (ts_options){0};
  TS_TRY(ts_mem_array(&o->option, (int64_t)n_tables * N_KINDS * WIDTHS_MAX,
                      sizeof *o->option, TS_TAG_MISC));
  TS_TRY(ts_mem_array(&o->start, n_tables + 1, sizeof *o->start, TS_TAG_MISC));
  for (int32_t t = 0; t < n_tables; t++) {
    TS_TRY(add(o, t, r, &n));
    o->start[t + 1] = n;
  }
done:
  return err;
}

void ts_options_reset(ts_options *o) {
  ts_mem_free(o->option);
  ts_mem_free(o->start);
  *o = (ts_options){0};
}
