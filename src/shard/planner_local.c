/* planner_local.c - local search: a table of the slowest (or overfull) rank
 * goes elsewhere or becomes another kind, or two tables change places, as
 * long as the plan gets better. */
#include <math.h>

#include "base/mem.h"
#include "shard/planner_impl.h"

enum { CANDIDATES = 24, PARTNERS = 24 };
/* Ranks looked at in all: keeps the largest plans within seconds, and is a
 * count, not a clock, so that every machine finds the same plan. */
static const double effort = 4e8;

typedef struct ts_local {
  ts_draft *d;
  const ts_options *options;
  ts_sized *on; /* (n_tables) those of one rank */
  int32_t n_on;
  double spent;
} ts_local;

/* The rank that most needs to lose something. */
static int worst_rank(const ts_draft *d) {
  int slowest = 0, fullest = 0;
  for (int r = 1; r < d->request->nodes->n_ranks; r++) {
    if (d->ms[r] > d->ms[slowest]) slowest = r;
    if (d->bytes[r] > d->bytes[fullest]) fullest = r;
  }
  return ts_draft_worth(d).over > 1 ? fullest : slowest;
}

static int idle_rank(const ts_draft *d) {
  int idle = 0;
  for (int r = 1; r < d->request->nodes->n_ranks; r++)
    if (d->ms[r] < d->ms[idle]) idle = r;
  return idle;
}

/* Tables with a shard on RANK, the costliest there first. */
static void find_tables(ts_local *l, int rank) {
  const ts_plan *p = l->d->plan;
  l->n_on = 0;
  for (int32_t t = 0; t < p->n_tables; t++) {
    const ts_table_plan *tp = &p->tables[t];
    for (int32_t k = 0; k < tp->n_shards; k++) {
      if (tp->shards[k].rank != rank) continue;
      ts_load load;
      ts_cost_shard(&load, &l->d->cost, t, tp->kind, &tp->shards[k]);
      l->on[l->n_on++] = (ts_sized){ts_plan_time_sum(&load.time), t};
      break;
    }
    l->spent += tp->n_shards;
  }
  ts_sort_sized(l->on, l->n_on);
}

static ts_err choose(ts_local *l, int32_t t, unsigned kinds, ts_choice *best) {
  int n;
  const ts_err err = ts_draft_choose(l->d, l->options, t, kinds, best, &n);
  l->spent += 3.0 * l->d->request->nodes->n_ranks * n;
  return err;
}

/* Tries all options of table T; keeps the best where it beats NOW. */
static ts_err move_table(ts_local *l, int32_t t, ts_worth now, bool *better) {
  ts_choice best = {.worth = now};
  ts_draft_remove(l->d, t, &best.plan);
  const ts_shard *old = best.plan.shards;
  const ts_err err = choose(l, t, ~0u, &best);
  *better |= best.plan.shards != old;
  ts_draft_put(l->d, t, &best.plan);
  return err;
}

static bool may_swap(const ts_draft *d, int32_t t) {
  const ts_table_config *c = &d->request->config->tables[t];
  return !c->ranks.n &&
         ts_sharding_is_whole(ts_sharding_find(d->plan->tables[t].kind));
}

static void exchange(ts_draft *d, int32_t a, int32_t b) {
  ts_table_plan x, y;
  ts_draft_remove(d, a, &x);
  ts_draft_remove(d, b, &y);
  const int32_t rank = x.shards[0].rank;
  x.shards[0].rank = y.shards[0].rank;
  y.shards[0].rank = rank;
  ts_draft_put(d, a, &x);
  ts_draft_put(d, b, &y);
}

/* Whole tables A of the worst rank and B of the idlest change places. */
static void swap_tables(ts_local *l, int32_t a, ts_worth now, bool *better) {
  ts_draft *d = l->d;
  const int idle = idle_rank(d);
  int partners = 0;
  if (!may_swap(d, a) || d->plan->tables[a].shards[0].rank == idle) return;
  for (int32_t b = 0; b < d->plan->n_tables && partners < PARTNERS; b++) {
    if (b == a || !may_swap(d, b) || d->plan->tables[b].shards[0].rank != idle)
      continue;
    partners++;
    exchange(d, a, b);
    l->spent += d->request->nodes->n_ranks;
    d->n_tried++;
    const ts_worth w = ts_draft_worth(d);
    *better = ts_worth_better(&w, &now);
    if (*better) return;
    exchange(d, a, b);
  }
}

static ts_err improve_once(ts_local *l, bool *better) {
  find_tables(l, worst_rank(l->d));
  const ts_worth now = ts_draft_worth(l->d);
  for (int32_t i = 0; i < l->n_on && i < CANDIDATES && !*better; i++) {
    TS_DO(move_table(l, l->on[i].number, now, better));
    if (!*better) swap_tables(l, l->on[i].number, now, better);
  }
  return TS_OK;
}

/* A kind that few tables use may not be worth its collectives: all its tables
 * at once go to their best other option. */
static ts_err drop_kind(ts_local *l, ts_shard_kind kind, bool *better) {
  ts_err err = TS_OK;
  ts_draft *d = l->d;
  const int32_t n = d->plan->n_tables;
  const ts_worth now = ts_draft_worth(d);
  ts_table_plan *old = NULL;
  ts_choice best = {0};
  if (d->n_of_kind[kind] == 0 || d->n_of_kind[kind] > CANDIDATES) return TS_OK;
  TS_TRY(ts_mem_many(old, n, MISC));
  for (int32_t t = 0; t < n; t++)
    if (d->plan->tables[t].kind == kind) ts_draft_remove(d, t, &old[t]);
  for (int32_t t = 0; t < n; t++) {
    if (!old[t].shards) continue;
    best = (ts_choice){0};
    TS_TRY(choose(l, t, ~(1u << kind), &best));
    if (!best.plan.shards) { /* the deck has it so */
      best.plan = old[t];
      old[t].shards = NULL;
    }
    ts_draft_put(d, t, &best.plan);
    best.plan.shards = NULL;
  }
  const ts_worth w = ts_draft_worth(d);
  *better = ts_worth_better(&w, &now);
  for (int32_t t = 0; !*better && t < n; t++) {
    ts_table_plan p;
    if (!old[t].shards) continue;
    ts_draft_remove(d, t, &p);
    ts_mem_free(p.shards);
    ts_draft_put(d, t, &old[t]);
    old[t].shards = NULL;
  }
done:
  ts_mem_free(best.plan.shards);
  for (int32_t t = 0; old && t < n; t++) ts_mem_free(old[t].shards);
  ts_mem_free(old);
  return err;
}

ts_err ts_draft_improve(ts_draft *d, const ts_options *o) {
  ts_err err = TS_OK;
  ts_local l = {.d = d, .options = o};
  bool better = true;
  TS_TRY(ts_mem_many(l.on, d->plan->n_tables, MISC));
  while (better && l.spent < effort) {
    better = false;
    TS_TRY(improve_once(&l, &better));
    for (int k = 1; k < TS_SHARD_COUNT && !better; k++)
      TS_TRY(drop_kind(&l, (ts_shard_kind)k, &better));
  }
done:
  ts_mem_free(l.on);
  return err;
}
