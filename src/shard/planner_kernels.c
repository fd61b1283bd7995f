/* planner_kernels.c - which tables have their rows in slow memory, where the
 * deck leaves that open and fast memory doesn't suffice.
 *
 * Shards keep their ranks.  The first tables to be cached are those that free
 * most bytes for a ms of fetching.  They get next to no lines at first; the
 * memory that is left becomes lines afterwards (planner_lines.c).  Where even
 * these lines and their slots are too much, tables have no cache: "host". */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "dense/param_optim.h"
#include "shard/planner_impl.h"

/* Slow memory is the host's beside a discrete device, else a file. */
static bool has_slow(const ts_plan_request *q) {
  const char *dir = q->config->run.tier_dir;
  return q->discrete || (dir && *dir);
}

void ts_plan_apply(const ts_config *c, const ts_plan *p, bool discrete) {
  for (int32_t t = 0; t < c->n_tables; t++) {
    ts_table_config *x = &c->tables[t];
    x->auto_kernel = p ? p->tables[t].kernel : NULL;
    x->auto_tier = x->auto_kernel && !discrete ? "file" : NULL;
  }
}

ts_err ts_open_create(ts_open *o, const ts_plan_request *q) {
  const int32_t n = q->config->n_tables;
  *o = (ts_open){.request = *q, .config = *q->config};
  o->config.tables = NULL;
  o->request.config = &o->config;
  TS_DO(ts_mem_many(o->factor, n, MISC));
  TS_DO(ts_mem_many(o->config.tables, n, MISC));
  for (int32_t t = 0; t < n; t++) {
    const ts_table_config *x = &q->config->tables[t];
    const bool open = isnan(x->cache.load_factor) &&
                      (ts_table_kernel_is_open(x) || ts_table_is_cached(x));
    o->config.tables[t] = *x;
    o->factor[t] = open ? ts_lines_least : ts_table_load_factor(x);
  }
  ts_plan_apply(&o->config, NULL, q->discrete);
  return TS_OK;
}

void ts_open_reset(ts_open *o) {
  ts_mem_free(o->config.tables);
  ts_mem_free(o->factor);
  *o = (ts_open){0};
}

/* ---- what a change of kernel frees --------------------------------------- */

typedef struct ts_change {
  ts_plan *plan;
  const char *kernel; /* that tables may change to */
  ts_open open;       /* with the plan's kernels */
  ts_cost cost;
  double *room;    /* (W) bytes left, below 0 where they are lacking */
  double *host;    /* (W) that may still be locked of the host's memory */
  ts_sized *order; /* (tables) those that may change, the best first */
} ts_change;

static bool may_change(const ts_change *x, int32_t t) {
  const ts_table_config *c = &x->open.config.tables[t];
  const char *kernel = x->plan->tables[t].kernel;
  return ts_table_kernel_is_open(c) && !ts_param_is_table(c) &&
         !ts_shard_kind_is_replicated(x->plan->tables[t].kind) &&
         (!kernel || strcmp(kernel, "host") != 0) &&
         (!kernel || strcmp(kernel, x->kernel) != 0);
}

static ts_plan_memory memory_of(ts_change *x, int32_t t, const ts_shard *s,
                                const char *kernel) {
  ts_plan_memory m;
  ts_table_config *c = &x->open.config.tables[t];
  c->auto_kernel = kernel;
  c->auto_tier = kernel && !x->open.request.discrete ? "file" : NULL;
  ts_storage_shard(&m, &x->cost, t, x->plan->tables[t].kind, s);
  return m;
}

/* Bytes that the change frees of fast memory; *LOCKED that it takes of the
 * host's. */
static double freed(ts_change *x, int32_t t, const ts_shard *s,
                    double *locked) {
  const ts_plan_memory now = memory_of(x, t, s, x->plan->tables[t].kernel);
  const ts_plan_memory then = memory_of(x, t, s, x->kernel);
  *locked = then.pinned - now.pinned;
  return ts_plan_memory_sum(&now) - ts_plan_memory_sum(&then);
}

/* A rank of table T lacks memory, and the host has enough for all of them. */
static bool helps(ts_change *x, int32_t t) {
  const ts_table_plan *p = &x->plan->tables[t];
  bool lacks = false;
  double locked;
  (void)freed(x, t, &p->shards[0], &locked); /* the largest */
  for (int32_t k = 0; k < p->n_shards; k++) {
    if (x->host[p->shards[k].rank] < locked) return false;
    lacks = lacks || x->room[p->shards[k].rank] < 0;
  }
  return lacks;
}

/* Changes table T.  Shards that are alike free the same: it is worked out
 * once. */
static void give(ts_change *x, int32_t t) {
  ts_table_plan *p = &x->plan->tables[t];
  double bytes = 0, locked = 0, share = -1;
  for (int32_t k = 0; k < p->n_shards; k++) {
    const ts_shard *s = &p->shards[k];
    const double here = ts_cost_share(&x->cost, t, s);
    if (k == 0 || here != share || s->n_rows != s[-1].n_rows)
      bytes = freed(x, t, s, &locked);
    share = here;
    x->room[s->rank] += bytes;
    x->host[s->rank] -= locked;
  }
  p->kernel = x->kernel;
}

/* Bytes that are freed for a ms of fetching: of one shard, which goes for all.
 */
static double gain_of(ts_change *x, int32_t t) {
  const ts_table_plan *p = &x->plan->tables[t];
  const ts_shard *s = &p->shards[0];
  double locked;
  const double bytes = freed(x, t, s, &locked);
  const double rows = ts_cost_misses(&x->cost, t, p->kind, s, ts_lines_least);
  const double line = ts_storage_line(&x->cost, t, s);
  return bytes / (ts_cost_fetch_ms(&x->cost, t, rows * line) + 1e-6);
}

/* Changes the tables that gain most, as long as that helps. */
static void change(ts_change *x) {
  int32_t n = 0;
  for (int32_t t = 0; t < x->plan->n_tables; t++)
    if (may_change(x, t)) x->order[n++] = (ts_sized){gain_of(x, t), t};
  ts_sort_sized(x->order, n);
  for (int32_t i = 0; i < n && x->order[i].size > 0; i++)
    if (helps(x, x->order[i].number)) give(x, x->order[i].number);
}

static ts_err find_room(ts_change *x) {
  ts_plan_report *r = NULL;
  TS_DO(ts_plan_estimate(&r, x->plan, &x->open.request));
  const double host = x->open.request.host_bytes;
  for (int k = 0; k < r->n_ranks; k++) {
    x->host[k] = host > 0 ? host - r->ranks[k].load.memory.pinned : INFINITY;
    x->room[k] = x->open.request.memory_bytes -
                 ts_plan_memory_sum(&r->ranks[k].load.memory);
  }
  ts_plan_report_destroy(r);
  return TS_OK;
}

ts_err ts_plan_kernels(ts_plan *p, const ts_plan_request *q) {
  static const char *const kernels[] = {"cached", "host"};
  ts_err err = TS_OK;
  ts_change x = {.plan = p};
  for (int32_t t = 0; t < p->n_tables && !has_slow(q); t++)
    p->tables[t].kernel = NULL; /* of a run that had some */
  if (!has_slow(q)) return TS_OK;
  TS_TRY(ts_open_create(&x.open, q));
  x.open.request.load_factor = x.open.factor;
  ts_plan_apply(&x.open.config, p, q->discrete);
  TS_TRY(ts_cost_create(&x.cost, &x.open.request));
  TS_TRY(ts_mem_many(x.room, p->n_ranks, MISC));
  TS_TRY(ts_mem_many(x.host, p->n_ranks, MISC));
  TS_TRY(ts_mem_many(x.order, p->n_tables, MISC));
  TS_TRY(find_room(&x));
  for (int i = 0; i < 2; i++) {
    x.kernel = kernels[i];
    change(&x);
  }
done:
  ts_cost_reset(&x.cost);
  ts_open_reset(&x.open);
  ts_mem_free_all(x.room, x.host, x.order);
  return err;
}

int32_t ts_plan_n_kernels(const ts_plan *p) {
  int32_t n = 0;
  for (int32_t t = 0; t < p->n_tables; t++) n += p->tables[t].kernel != NULL;
  return n;
}

ts_err ts_plan_fused_bytes(double *bytes, int32_t *rank, const ts_plan *p,
                           const ts_plan_request *q) {
  ts_err err = TS_OK;
  ts_open fused = {0};
  ts_plan_report *r = NULL;
  TS_TRY(ts_open_create(&fused, q));
  fused.request.load_factor = q->load_factor;
  TS_TRY(ts_plan_estimate(&r, p, &fused.request));
  *bytes = r->memory_bytes;
  *rank = r->fullest;
done:
  ts_plan_report_destroy(r);
  ts_open_reset(&fused);
  return err;
}
