/* planner_draft.c - a plan under way: tables come and go, loads are kept. */
#include <math.h>

#include "base/mem.h"
#include "shard/planner_impl.h"

ts_err ts_draft_create(ts_draft *d, const ts_plan_request *r) {
  const int n = r->nodes->n_ranks;
  *d = (ts_draft){.request = r};
  TS_DO(ts_cost_create(&d->cost, r));
  TS_DO(ts_plan_create(&d->plan, r->config->n_tables, n));
  d->plan->n_nodes = r->nodes->n_nodes;
  TS_DO(ts_mem_many(d->ms, n, MISC));
  TS_DO(ts_mem_many(d->bytes, n, MISC));
  TS_DO(ts_mem_many(d->at, n, MISC));
  ts_cost_always(&d->all, &d->cost);
  return TS_OK;
}

void ts_draft_reset(ts_draft *d) {
  ts_cost_reset(&d->cost);
  ts_plan_destroy(d->plan);
  ts_mem_free(d->ms);
  ts_mem_free(d->bytes);
  ts_mem_free(d->at);
  *d = (ts_draft){0};
}

/* Most shards of a table are of one size and get as many ids: what the last
 * one cost is kept. */
static void add_shards(ts_draft *d, int32_t t, const ts_table_plan *p,
                       double times) {
  ts_load l = {0};
  double ms = 0, bytes = 0, share = -1;
  for (int32_t k = 0; k < p->n_shards; k++) {
    const ts_shard *s = &p->shards[k];
    const double here = ts_cost_share(&d->cost, t, s);
    if (k == 0 || here != share || s->n_rows != s[-1].n_rows) {
      ts_cost_shard(&l, &d->cost, t, p->kind, s);
      ms = ts_plan_time_sum(&l.time);
      bytes = ts_plan_memory_sum(&l.memory);
      share = here;
    }
    d->ms[s->rank] += times * ms;
    d->bytes[s->rank] += times * bytes;
  }
}

static void count(ts_draft *d, int32_t t, const ts_table_plan *p, int times) {
  ts_load l;
  int32_t *n = &d->n_of_kind[p->kind];
  ts_cost_everywhere(&l, &d->cost, t, d->plan, d->plan->n_tables);
  ts_load_add(&d->all, &l, times);
  if (*n == (times > 0 ? 0 : 1)) {
    ts_cost_kind(&l, &d->cost, p->kind);
    ts_load_add(&d->all, &l, times);
  }
  *n += times;
  add_shards(d, t, p, times);
}

void ts_draft_put(ts_draft *d, int32_t t, const ts_table_plan *p) {
  d->plan->tables[t] = *p;
  count(d, t, p, 1);
}

void ts_draft_remove(ts_draft *d, int32_t t, ts_table_plan *out) {
  *out = d->plan->tables[t];
  count(d, t, out, -1);
  d->plan->tables[t] = (ts_table_plan){0};
}

/* Bytes of the largest shard that OPTION makes on a rank that it picks: what
 * such a rank must have left. */
static double needs(const ts_draft *d, int32_t t, const ts_option *o) {
  const ts_table_config *c = &d->request->config->tables[t];
  ts_shard s = {0, 0, c->rows, 0, o->n_cols ? o->n_cols : c->dim};
  ts_plan_memory m;
  const ts_sharding_ops *ops = ts_sharding_find(o->kind);
  if (ops->split_rows && ops->on_node != TS_NODE_ANY) {
    const int64_t l =
        (int64_t)d->cost.per_node > 1 ? (int64_t)d->cost.per_node : 1;
    s.n_rows = (c->rows + l - 1) / l;
  }
  ts_storage_shard(&m, &d->cost, t, o->kind, &s);
  return ts_plan_memory_sum(&m);
}

/* A rank that has no room counts as very busy, the more so the less it has:
 * placement then goes elsewhere as long as there is an elsewhere. */
ts_err ts_draft_place(ts_draft *d, int32_t t, const ts_option *o,
                      ts_table_plan *out) {
  const ts_plan_request *r = d->request;
  const double limit =
      r->memory_bytes - ts_plan_memory_sum(&d->all.memory) - needs(d, t, o);
  const double busy = 1e9;
  for (int k = 0; k < r->nodes->n_ranks; k++) {
    const double over = d->bytes[k] - limit;
    d->at[k] = d->ms[k] + (over > 0 ? busy + over : 0);
  }
  if (ts_sharding_is_whole(ts_sharding_find(o->kind)))
    ts_cost_prefer(d->at, &d->cost, d->plan, t);
  const ts_placement place = {.nodes = r->nodes,
                              .load = d->at,
                              .min_column = r->config->sharding.min_column,
                              .n_cols = o->n_cols};
  d->n_tried++;
  *out = (ts_table_plan){0};
  return ts_plan_place(out, o->kind, &r->config->tables[t], &place);
}

ts_worth ts_draft_worth(const ts_draft *d) {
  const int n = d->request->nodes->n_ranks;
  const double limit =
      d->request->memory_bytes - ts_plan_memory_sum(&d->all.memory);
  double most = 0, square = 0, over = 0;
  for (int k = 0; k < n; k++) {
    if (d->ms[k] > most) most = d->ms[k];
    square += d->ms[k] * d->ms[k];
    if (d->bytes[k] > limit) over += d->bytes[k] - limit;
  }
  /* The slowest rank decides; the others break ties, and lead the way where
   * several are equally slow. */
  return (ts_worth){over, ts_plan_time_sum(&d->all.time) + most +
                              0.02 * sqrt(square / n)};
}

ts_err ts_draft_choose(ts_draft *d, const ts_options *o, int32_t t,
                       unsigned kinds, ts_choice *best, int *n_tried) {
  *n_tried = 0;
  for (int32_t i = o->start[t]; i < o->start[t + 1]; i++) {
    ts_table_plan p = {0};
    if (!(kinds >> o->option[i].kind & 1)) continue;
    const ts_err err = ts_draft_place(d, t, &o->option[i], &p);
    if (err) {
      ts_mem_free(p.shards);
      return err;
    }
    ts_draft_put(d, t, &p);
    const ts_worth w = ts_draft_worth(d);
    ts_draft_remove(d, t, &p);
    const bool take = !best->plan.shards || ts_worth_better(&w, &best->worth);
    ts_mem_free(take ? best->plan.shards : p.shards);
    if (take) *best = (ts_choice){p, w};
    ++*n_tried;
  }
  return TS_OK;
}

bool ts_worth_better(const ts_worth *a, const ts_worth *than) {
  const double slack = 1.0; /* bytes: sums of fractions come and go */
  if (a->over > than->over + slack) return false;
  if (a->over < than->over - slack) return true;
  return a->ms < than->ms * (1 - 1e-9) - 1e-12;
}
