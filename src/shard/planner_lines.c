/* planner_lines.c - how many lines of fast memory cached tables get, where
 * the deck leaves that open: memory goes where it saves most.
 *
 * Tables that one group can hold share its cache, in which the frequent rows
 * of all of them push out the others: they are one pool here, with one load
 * factor. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "shard/planner_impl.h"
#include "sparse/cache.h"

const double ts_lines_least = 0.001;
static const double step = 1.1;

/* Tables with one load factor. */
typedef struct ts_cache_share {
  int32_t table; /* the first */
  double factor, gain;
  bool full;
  double *bytes; /* (W) that its lines take at a load factor of 1 */
  double *rows;  /* (W) */
} ts_cache_share;

typedef struct ts_shares {
  const ts_plan *plan;
  ts_cost cost;
  int32_t *of; /* (tables) pool, -1: the deck has the load factor */
  ts_cache_share *pool;
  int32_t n, n_ranks;
  double *room; /* (W) bytes left */
} ts_shares;

static bool same(const char *a, const char *b) {
  return !strcmp(a ? a : "", b ? b : "");
}

/* As groups are made (sharding_tables.c); where these keep apart more, their
 * caches are alike. */
static bool shares(const ts_shares *x, int32_t i, int32_t j) {
  const ts_table_config *a = &x->cost.request->config->tables[i];
  const ts_table_config *b = &x->cost.request->config->tables[j];
  const ts_table_plan *p = &x->plan->tables[i], *q = &x->plan->tables[j];
  return p->kind == q->kind && p->shards[0].n_cols == q->shards[0].n_cols &&
         a->dtype == b->dtype && same(a->optimizer.kind, b->optimizer.kind) &&
         same(a->cache.policy, b->cache.policy) &&
         !strcmp(ts_table_tier(a), ts_table_tier(b)) &&
         a->cache.passes == b->cache.passes &&
         a->cache.min_pass_size == b->cache.min_pass_size;
}

static void find_pools(ts_shares *x) {
  const ts_config *c = x->cost.request->config;
  for (int32_t t = 0; t < c->n_tables; t++) {
    int32_t k = 0;
    x->of[t] = -1;
    if (!ts_table_is_open(&c->tables[t])) continue;
    while (k < x->n && !shares(x, x->pool[k].table, t)) k++;
    if (k == x->n)
      x->pool[x->n++] = (ts_cache_share){.table = t, .factor = ts_lines_least};
    x->of[t] = k;
  }
}

/* Computes the bytes that each pool's lines take on each rank, with a set that
 * is not full for each shard. */
static ts_err weigh(ts_shares *x) {
  const int n = x->n_ranks;
  for (int32_t k = 0; k < x->n; k++) {
    TS_DO(ts_mem_many(x->pool[k].bytes, n, MISC));
    TS_DO(ts_mem_many(x->pool[k].rows, n, MISC));
  }
  for (int32_t t = 0; t < x->plan->n_tables; t++) {
    const ts_table_plan *p = &x->plan->tables[t];
    if (x->of[t] < 0) continue;
    ts_cache_share *pool = &x->pool[x->of[t]];
    for (int32_t k = 0; k < p->n_shards; k++) {
      const ts_shard *s = &p->shards[k];
      const double line = ts_storage_line(&x->cost, t, s);
      pool->bytes[s->rank] += line * (double)s->n_rows;
      pool->rows[s->rank] += (double)s->n_rows;
      x->room[s->rank] -= line * TS_CACHE_WAYS;
    }
  }
  return TS_OK;
}

/* Finds the bytes left on each rank when open tables have next to no lines. */
static ts_err find_room(ts_shares *x, double *least) {
  ts_err err = TS_OK;
  ts_plan_report *r = NULL;
  ts_plan_request q = *x->cost.request;
  q.load_factor = least;
  for (int32_t t = 0; t < x->plan->n_tables; t++)
    least[t] = x->of[t] < 0 ? x->cost.tables[t].load_factor : ts_lines_least;
  TS_TRY(ts_plan_estimate(&r, x->plan, &q));
  (void)ts_passes_scratch(x->room, &x->cost, x->plan);
  for (int k = 0; k < x->n_ranks; k++)
    x->room[k] = q.memory_bytes - ts_plan_memory_sum(&r->ranks[k].load.memory) -
                 x->room[k];
done:
  ts_plan_report_destroy(r);
  return err;
}

/* The most that POOL's load factor may be: as far as memory goes, and numbers
 * of slots. */
static double most(const ts_shares *x, const ts_cache_share *p) {
  const double slots = 0.99 * INT32_MAX;
  double f = 1;
  for (int k = 0; k < x->n_ranks; k++) {
    if (p->bytes[k] <= 0) continue;
    f = fmin(f, p->factor + fmax(x->room[k], 0) / p->bytes[k]);
    f = fmin(f, fmax(slots / p->rows[k] - 1, p->factor));
  }
  return f;
}

static double misses(const ts_shares *x, int32_t t, double factor) {
  const ts_table_plan *p = &x->plan->tables[t];
  return ts_cost_misses(&x->cost, t, p->kind, &p->shards[0], factor);
}

/* ms of fetching that a byte saves when the load factor becomes TO. */
static double gain_of(const ts_shares *x, int32_t k, double to) {
  const ts_cache_share *p = &x->pool[k];
  double ms = 0, bytes = 0;
  for (int32_t t = p->table; t < x->plan->n_tables; t++) {
    if (x->of[t] != k) continue;
    const ts_table_plan *plan = &x->plan->tables[t];
    const double line = ts_storage_line(&x->cost, t, &plan->shards[0]);
    const double saved = misses(x, t, p->factor) - misses(x, t, to);
    ms += plan->n_shards * ts_cost_fetch_ms(&x->cost, t, saved * line);
  }
  for (int r = 0; r < x->n_ranks; r++) bytes += p->bytes[r];
  return ms / ((to - p->factor) * bytes);
}

static void look(ts_shares *x, int32_t k) {
  ts_cache_share *p = &x->pool[k];
  const double to = fmin(p->factor * step, most(x, p));
  p->full = to < p->factor * (1 + 1e-6);
  if (!p->full) p->gain = gain_of(x, k, to);
}

static void raise(ts_shares *x, ts_cache_share *p) {
  const double to = fmin(p->factor * step, most(x, p));
  for (int r = 0; r < x->n_ranks; r++)
    x->room[r] -= (to - p->factor) * p->bytes[r];
  p->factor = to;
}

static void share_out(ts_shares *x) {
  for (int32_t k = 0; k < x->n; k++) look(x, k);
  for (;;) {
    ts_cache_share *best = NULL;
    for (int32_t k = 0; k < x->n; k++)
      if (!x->pool[k].full && (!best || x->pool[k].gain > best->gain))
        best = &x->pool[k];
    if (!best) return;
    raise(x, best);
    for (int32_t k = 0; k < x->n; k++)
      if (best == &x->pool[k]) look(x, k);
  }
}

static void pools_reset(ts_shares *x) {
  for (int32_t k = 0; k < x->n; k++) {
    ts_mem_free(x->pool[k].bytes);
    ts_mem_free(x->pool[k].rows);
  }
  ts_mem_free(x->of);
  ts_mem_free(x->pool);
  ts_mem_free(x->room);
  ts_cost_reset(&x->cost);
}

ts_err ts_plan_lines(double *load_factor, const ts_plan *p,
                     const ts_plan_request *q) {
  ts_err err = TS_OK;
  ts_shares x = {.plan = p, .n_ranks = p->n_ranks};
  const int32_t n = p->n_tables;
  TS_TRY(ts_cost_create(&x.cost, q));
  TS_TRY(ts_mem_many(x.of, n, MISC));
  TS_TRY(ts_mem_many(x.pool, n, MISC));
  TS_TRY(ts_mem_many(x.room, p->n_ranks, MISC));
  find_pools(&x);
  TS_TRY(find_room(&x, load_factor));
  TS_TRY(weigh(&x));
  share_out(&x);
  for (int32_t t = 0; t < n; t++)
    if (x.of[t] >= 0) load_factor[t] = x.pool[x.of[t]].factor;
done:
  pools_reset(&x);
  return err;
}
