/* planner_kernels.c - which tables have their rows in slow memory, where the
 * deck leaves that open and fast memory doesn't suffice.
 *
 * Where the shards are stays as it is.  Tables are cached first whose rows
 * free most bytes for a ms of fetching, with next to no lines; what is left of
 * the memory becomes lines afterwards (planner_lines.c).  Where even so few
 * lines and their slots are too much, tables go without a cache, "host". */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "dense/param_optim.h"
#include "shard/planner_impl.h"

/* Slow memory is the host's beside a discrete device, else a file. */
static bool has_file(const ts_config *c) {
  const char *dir = c->run.tier_dir;
  return dir && *dir;
}

void ts_plan_apply(const ts_config *c, const ts_plan *p, bool discrete) {
  for (int32_t t = 0; t < c->n_tables; t++) {
    ts_table_config *x = &c->tables[t];
    x->auto_kernel = p ? p->tables[t].kernel : NULL;
    x->auto_tier = x->auto_kernel && !discrete && has_file(c) ? "file" : NULL;
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
  ts_open now, then;  /* all as they are; all that may with the new kernel */
  ts_cost before, after;
  double *room;     /* (W) bytes left, below 0 where they are lacking */
  ts_sized *order;  /* (tables) those that may change, the best first */
  const char **was; /* (tables) */
  int32_t n;
} ts_change;

static bool may_change(const ts_change *x, int32_t t) {
  const ts_table_config *c = &x->now.config.tables[t];
  const char *kernel = x->plan->tables[t].kernel;
  return ts_table_kernel_is_open(c) && !ts_param_is_table(c) &&
         (x->now.request.discrete || has_file(&x->now.config)) &&
         !ts_shard_kind_is_replicated(x->plan->tables[t].kind) &&
         (!kernel || strcmp(kernel, x->kernel) != 0) &&
         (!kernel || strcmp(kernel, "host") != 0);
}

static double freed(const ts_change *x, int32_t t, const ts_shard *s) {
  ts_plan_memory a, b;
  const ts_shard_kind kind = x->plan->tables[t].kind;
  ts_storage_shard(&a, &x->before, t, kind, s);
  ts_storage_shard(&b, &x->after, t, kind, s);
  return ts_plan_memory_sum(&a) - ts_plan_memory_sum(&b);
}

static bool lacks(const ts_change *x, int32_t t) {
  const ts_table_plan *p = &x->plan->tables[t];
  for (int32_t k = 0; k < p->n_shards; k++)
    if (x->room[p->shards[k].rank] < 0) return true;
  return false;
}

/* Changes table T.  Shards that are alike free the same: it is worked out
 * once. */
static void give(ts_change *x, int32_t t) {
  ts_table_plan *p = &x->plan->tables[t];
  double bytes = 0, share = -1;
  for (int32_t k = 0; k < p->n_shards; k++) {
    const ts_shard *s = &p->shards[k];
    const double here = ts_cost_share(&x->before, t, s);
    if (k == 0 || here != share || s->n_rows != s[-1].n_rows)
      bytes = freed(x, t, s);
    share = here;
    x->room[s->rank] += bytes;
  }
  p->kernel = x->kernel;
}

/* Lists the tables that may change, those first that free most for a ms of
 * fetching. */
static void find_order(ts_change *x) {
  for (int32_t t = 0; t < x->plan->n_tables; t++) {
    const ts_table_plan *p = &x->plan->tables[t];
    const ts_shard *s = &p->shards[0];
    if (!may_change(x, t)) continue;
    const double line = ts_storage_line(&x->after, t, s);
    const double rows =
        ts_cost_misses(&x->after, t, p->kind, s, ts_lines_least);
    const double ms = ts_cost_fetch_ms(&x->after, t, rows * line);
    const double bytes = freed(x, t, s);
    if (bytes > 0) x->order[x->n++] = (ts_sized){bytes / (ms + 1e-6), t};
  }
  ts_sort_sized(x->order, x->n);
}

/* Changes tables in that order, as long as one of their ranks lacks memory. */
static void change(ts_change *x) {
  for (int32_t i = 0; i < x->n; i++) {
    const int32_t t = x->order[i].number;
    if (lacks(x, t)) give(x, t);
  }
}

static ts_err find_room(ts_change *x) {
  ts_plan_report *r = NULL;
  TS_DO(ts_plan_estimate(&r, x->plan, &x->now.request));
  for (int k = 0; k < r->n_ranks; k++)
    x->room[k] = x->now.request.memory_bytes -
                 ts_plan_memory_sum(&r->ranks[k].load.memory);
  ts_plan_report_destroy(r);
  return TS_OK;
}

static ts_err change_create(ts_change *x, const ts_plan_request *q) {
  ts_open *const both[] = {&x->now, &x->then};
  const int32_t n = x->plan->n_tables;
  for (int i = 0; i < 2; i++) {
    TS_DO(ts_open_create(both[i], q));
    both[i]->request.load_factor = both[i]->factor;
    ts_plan_apply(&both[i]->config, x->plan, q->discrete);
  }
  for (int32_t t = 0; t < n; t++) {
    ts_table_config *c = &x->then.config.tables[t];
    if (!may_change(x, t)) continue;
    c->auto_kernel = x->kernel;
    if (!q->discrete) c->auto_tier = "file";
  }
  TS_DO(ts_cost_create(&x->before, &x->now.request));
  TS_DO(ts_cost_create(&x->after, &x->then.request));
  TS_DO(ts_mem_many(x->room, x->plan->n_ranks, MISC));
  return ts_mem_many(x->order, n, MISC);
}

static void change_reset(ts_change *x) {
  ts_cost_reset(&x->before);
  ts_cost_reset(&x->after);
  ts_open_reset(&x->now);
  ts_open_reset(&x->then);
  ts_mem_free(x->room);
  ts_mem_free(x->order);
  *x = (ts_change){0};
}

ts_err ts_plan_kernels(ts_plan *p, const ts_plan_request *q) {
  static const char *const kernels[] = {"cached", "host"};
  ts_err err = TS_OK;
  ts_change x = {0};
  for (int i = 0; i < 2; i++) {
    x = (ts_change){.plan = p, .kernel = kernels[i]};
    TS_TRY(change_create(&x, q));
    TS_TRY(find_room(&x));
    find_order(&x);
    change(&x);
    change_reset(&x);
  }
done:
  change_reset(&x);
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
