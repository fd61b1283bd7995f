/* planner.c - the search: a greedy plan for each set of kinds worth trying,
 * then moves and swaps on the best.
 *
 * A kind costs its collectives once, however many tables use it; a single
 * move never sees that, so the greedy start is made with several sets of
 * kinds, and with the tables ordered by time and by memory. */
#include "shard/planner.h"

#include <math.h>

#include "base/mem.h"
#include "shard/planner_impl.h"

static const unsigned all_kinds = (1u << TS_SHARD_COUNT) - 1;

/* Largest first, by the time or the memory that the table takes whole. */
static void order_tables(ts_sized *order, const ts_draft *d, bool memory) {
  const ts_config *c = d->request->config;
  ts_shard_kind kind = TS_SHARD_AUTO + 1;
  while (!ts_sharding_is_whole(ts_sharding_find(kind))) kind++;
  for (int32_t t = 0; t < c->n_tables; t++) {
    const ts_shard whole = {0, 0, c->tables[t].rows, 0, c->tables[t].dim};
    ts_load l;
    ts_cost_shard(&l, &d->cost, t, kind, &whole);
    order[t] = (ts_sized){
        memory ? ts_plan_memory_sum(&l.memory) : ts_plan_time_sum(&l.time), t};
  }
  ts_sort_sized(order, c->n_tables);
}

/* The option of table T that leaves the draft best, among those of KINDS
 * (bits); all of them where the deck lets it have none of these. */
static ts_err add_table(ts_draft *d, const ts_options *o, int32_t t,
                        unsigned kinds) {
  ts_err err = TS_OK;
  ts_choice best = {0};
  int n;
  TS_TRY(ts_draft_choose(d, o, t, kinds, &best, &n));
  if (!n) TS_TRY(ts_draft_choose(d, o, t, all_kinds, &best, &n));
  ts_draft_put(d, t, &best.plan);
  best.plan.shards = NULL;
done:
  ts_mem_free(best.plan.shards);
  return err;
}

static ts_err greedy(ts_draft *d, const ts_options *o, const ts_sized *order,
                     unsigned kinds) {
  for (int32_t i = 0; i < d->request->config->n_tables; i++)
    TS_DO(add_table(d, o, order[i].number, kinds));
  return TS_OK;
}

/* ---- starts -------------------------------------------------------------- */

enum { STARTS_MAX = 64 };

/* Sets of kinds: all; each alone, N_ALONE with all; each pair. */
static int kind_sets(unsigned *set, int *n_alone, const ts_options *o,
                     int32_t n_tables) {
  unsigned there = 0;
  int n = 0;
  for (int32_t i = 0; i < o->start[n_tables]; i++)
    there |= 1u << o->option[i].kind;
  set[n++] = all_kinds;
  for (unsigned k = 1; k < TS_SHARD_COUNT; k++)
    if (there >> k & 1) set[n++] = 1u << k;
  *n_alone = n;
  for (unsigned k = 1; k < TS_SHARD_COUNT; k++)
    for (unsigned j = k + 1; j < TS_SHARD_COUNT; j++)
      if ((there >> k & 1) && (there >> j & 1) && n < STARTS_MAX)
        set[n++] = 1u << k | 1u << j;
  return n;
}

/* Large plans have no time for all pairs: ranks times options at a start. */
static int n_sets(unsigned *set, const ts_plan_request *r,
                  const ts_options *o) {
  int n_alone;
  const int n = kind_sets(set, &n_alone, o, r->config->n_tables);
  const double work = (double)r->nodes->n_ranks * o->start[r->config->n_tables];
  const double room = 2e9 / (work + 1);
  if (room >= n) return n;
  return room < n_alone ? n_alone : (int)room;
}

static void take_better(ts_draft *best, ts_draft *d) {
  const ts_worth a = ts_draft_worth(d);
  const ts_worth b = best->plan ? ts_draft_worth(best) : (ts_worth){0};
  const int64_t tried = best->n_tried + d->n_tried;
  if (!best->plan || ts_worth_better(&a, &b)) {
    ts_draft_reset(best);
    *best = *d;
    *d = (ts_draft){0};
  }
  best->n_tried = tried;
}

static ts_err search(ts_draft *best, const ts_options *o,
                     const ts_plan_request *r) {
  ts_err err = TS_OK;
  ts_draft d = {0};
  ts_sized *order = NULL;
  unsigned set[STARTS_MAX];
  const int n = n_sets(set, r, o);
  TS_TRY(ts_mem_many(order, r->config->n_tables, MISC));
  for (int i = 0; i < n; i++)
    for (int memory = 0; memory < 2; memory++) {
      TS_TRY(ts_draft_create(&d, r));
      order_tables(order, &d, memory);
      TS_TRY(greedy(&d, o, order, set[i]));
      take_better(best, &d);
      ts_draft_reset(&d);
    }
  TS_TRY(ts_draft_improve(best, o));
done:
  ts_draft_reset(&d);
  ts_mem_free(order);
  return err;
}

static bool has_open(const ts_config *c) {
  for (int32_t t = 0; t < c->n_tables; t++)
    if (ts_table_is_open(&c->tables[t])) return true;
  return false;
}

static ts_err search_once(ts_draft *best, ts_options *o,
                          const ts_plan_request *r) {
  ts_draft_reset(best);
  ts_options_reset(o);
  TS_DO(ts_options_list(o, r));
  return search(best, o, r);
}

static bool same_kernels(const ts_plan *p, const ts_config *c) {
  for (int32_t t = 0; t < p->n_tables; t++)
    if (p->tables[t].kernel != c->tables[t].auto_kernel) return false;
  return true;
}

static void take_kernels(ts_plan *p, const ts_config *c) {
  for (int32_t t = 0; t < p->n_tables; t++)
    p->tables[t].kernel = c->tables[t].auto_kernel;
}

/* Searches with the tables' kernels as they are; again with next to no lines
 * where the deck leaves these open; and with ever more tables in slow memory,
 * until a plan fits or there are no more. */
static ts_err search_kernels(ts_draft *best, ts_options *o, ts_open *own) {
  const ts_plan_request *r = &own->request;
  TS_DO(search_once(best, o, r));
  if (ts_draft_worth(best).over > 1.0 && has_open(r->config)) {
    own->request.load_factor = own->factor;
    TS_DO(search_once(best, o, r));
  }
  while (ts_draft_worth(best).over > 1.0) {
    take_kernels(best->plan, &own->config);
    TS_DO(ts_plan_kernels(best->plan, r));
    if (same_kernels(best->plan, &own->config)) break;
    own->request.load_factor = own->factor;
    ts_plan_apply(&own->config, best->plan, r->discrete);
    TS_DO(search_once(best, o, r));
  }
  take_kernels(best->plan, &own->config);
  return TS_OK;
}

ts_err ts_plan_search(ts_plan **out, ts_plan_report **report,
                      const ts_plan_request *r) {
  ts_err err = TS_OK;
  ts_options o = {0};
  ts_draft best = {0};
  ts_open own = {0};
  TS_TRY(ts_open_create(&own, r));
  TS_TRY(search_kernels(&best, &o, &own));
  if (ts_draft_worth(&best).over > 1.0) TS_TRY(ts_draft_explain(&best, &o));
  if (report) {
    TS_TRY(ts_plan_estimate(report, best.plan, &own.request));
    (*report)->n_tried = best.n_tried;
  }
  *out = best.plan;
  best.plan = NULL;
done:
  ts_draft_reset(&best);
  ts_options_reset(&o);
  ts_open_reset(&own);
  return err;
}
