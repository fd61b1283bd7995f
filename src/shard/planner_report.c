/* planner_report.c - what is expected of a plan. */
#include <math.h>

#include "base/mem.h"
#include "shard/planner_impl.h"

static ts_err report_create(ts_plan_report **out, const ts_plan *p) {
  ts_err err = TS_OK;
  ts_plan_report *r = NULL;
  TS_TRY(ts_mem_alloc(&r, sizeof *r, TS_TAG_MISC));
  TS_TRY(ts_mem_many(r->ranks, p->n_ranks, MISC));
  TS_TRY(ts_mem_many(r->tables, p->n_tables, MISC));
  r->n_ranks = p->n_ranks;
  r->n_tables = p->n_tables;
  *out = r;
  r = NULL;
done:
  ts_plan_report_destroy(r);
  return err;
}

void ts_plan_report_destroy(ts_plan_report *r) {
  if (!r) return;
  ts_mem_free(r->ranks);
  ts_mem_free(r->tables);
  ts_mem_free(r);
}

static void add_table(ts_plan_report *r, ts_load *all, const ts_cost *c,
                      int32_t t, const ts_plan *plan) {
  const ts_table_plan *p = &plan->tables[t];
  ts_plan_table *table = &r->tables[t];
  ts_load l;
  ts_cost_everywhere(&l, c, t, plan, t);
  ts_load_add(all, &l, 1);
  ts_load_add(&table->load, &l, r->n_ranks);
  for (int32_t k = 0; k < p->n_shards; k++) {
    ts_cost_shard(&l, c, t, p->kind, &p->shards[k]);
    ts_load_add(&r->ranks[p->shards[k].rank].load, &l, 1);
    r->ranks[p->shards[k].rank].n_shards++;
    ts_load_add(&table->load, &l, 1);
    table->memory_bytes += l.memory.weights + l.memory.state + l.memory.slow;
    table->slowest_ms = fmax(table->slowest_ms, ts_plan_time_sum(&l.time));
  }
}

static void sum_up(ts_plan_report *r, const ts_plan_request *q) {
  double sum = 0, most = -1, fullest = -1;
  for (int32_t k = 0; k < r->n_ranks; k++) {
    const double ms = ts_plan_time_sum(&r->ranks[k].load.time);
    const double bytes = ts_plan_memory_sum(&r->ranks[k].load.memory);
    sum += ms;
    if (ms > most) most = ms, r->slowest = k;
    if (bytes > fullest) fullest = bytes, r->fullest = k;
  }
  r->sparse_ms = most;
  r->imbalance = sum > 0 ? most * r->n_ranks / sum : 1;
  r->memory_bytes = fullest;
  r->limit = q->memory_bytes;
  const double input = r->ranks[r->slowest].load.time.input;
  const double under = r->dense_ms + most - input;
  r->hidden_ms = q->hides_input ? fmin(input, under) : 0;
  r->step_ms = r->dense_ms + most - r->hidden_ms;
}

ts_err ts_plan_estimate(ts_plan_report **out, const ts_plan *p,
                        const ts_plan_request *q) {
  ts_err err = TS_OK;
  ts_cost c = {0};
  ts_plan_report *r = NULL;
  ts_load all, l;
  bool used[TS_SHARD_COUNT] = {false};
  TS_TRY(report_create(&r, p));
  TS_TRY(ts_cost_create(&c, q));
  ts_cost_always(&all, &c);
  for (int32_t t = 0; t < p->n_tables; t++) {
    add_table(r, &all, &c, t, p);
    used[p->tables[t].kind] = true;
  }
  for (int k = 0; k < TS_SHARD_COUNT; k++) {
    if (!used[k]) continue;
    ts_cost_kind(&l, &c, (ts_shard_kind)k);
    ts_load_add(&all, &l, 1);
  }
  for (int32_t k = 0; k < r->n_ranks; k++)
    ts_load_add(&r->ranks[k].load, &all, 1);
  r->dense_ms = ts_cost_dense_ms(&c);
  sum_up(r, q);
  *out = r;
  r = NULL;
done:
  ts_cost_reset(&c);
  ts_plan_report_destroy(r);
  return err;
}
