/* planner_print.c - a report for people. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "shard/planner_impl.h"

static double mib(double bytes) {
  return bytes / (1 << 20);
}

/* ---- ranks --------------------------------------------------------------- */

static ts_err print_rank(ts_str *s, const ts_plan_report *r, int32_t k) {
  const ts_plan_rank *x = &r->ranks[k];
  const ts_plan_time *t = &x->load.time;
  const ts_plan_memory *m = &x->load.memory;
  return ts_str_append(
      s,
      "rank %5d %9.1f (%.1f, %.1f, %.1f, %.1f, %.1f) + %.1f %8.3f (%.3f, "
      "%.3f, %.3f, %.3f, "
      "%.3f) %8.3f %8.3f %8.3f %6d\n",
      k, mib(ts_plan_memory_sum(m)), mib(m->weights), mib(m->state),
      mib(m->buffers), mib(m->dense), mib(m->slow), mib(m->disk),
      ts_plan_time_sum(t), t->input, t->lookup, t->output, t->gradient,
      t->backward, mib(x->load.sent.input), mib(x->load.sent.output),
      mib(x->load.sent.gradient), x->n_shards);
}

static ts_err print_ranks(ts_str *s, const ts_plan_report *r, int32_t rows) {
  ts_err err = TS_OK;
  ts_sized *list = NULL;
  const int32_t n = rows > 0 && rows < r->n_ranks ? rows : r->n_ranks;
  TS_TRY(ts_mem_many(list, r->n_ranks, MISC));
  for (int32_t k = 0; k < r->n_ranks; k++)
    list[k] = (ts_sized){ts_plan_time_sum(&r->ranks[k].load.time), k};
  if (n < r->n_ranks) {
    ts_sort_sized(list, r->n_ranks);
    TS_TRY(ts_str_append(s, "the %d slowest of %d ranks\n", n, r->n_ranks));
  }
  TS_TRY(ts_str_append(
      s, "           MiB (weights, state, buffers, dense, slow) + on disk, ms "
         "(input, lookup, output, gradient, backward) MiB sent: input output "
         "gradient "
         "shards\n"));
  for (int32_t i = 0; i < n; i++) TS_TRY(print_rank(s, r, list[i].number));
done:
  ts_mem_free(list);
  return err;
}

/* ---- tables -------------------------------------------------------------- */

/* "0-3,7": ranks in order of shards, runs shortened. */
static ts_err print_where(ts_str *s, const ts_table_plan *p) {
  if (ts_shard_kind_is_replicated(p->kind)) return ts_str_append(s, " all");
  for (int32_t k = 0, first; k < p->n_shards; k++) {
    first = k;
    while (k + 1 < p->n_shards &&
           p->shards[k + 1].rank == p->shards[k].rank + 1)
      k++;
    TS_DO(ts_str_append(s, "%s%d", first ? "," : " ", p->shards[first].rank));
    if (k > first) TS_DO(ts_str_append(s, "-%d", p->shards[k].rank));
  }
  return TS_OK;
}

static ts_err print_table(ts_str *s, const ts_plan_table *x,
                          const ts_table_plan *p, const ts_table_config *c,
                          const ts_cost_table *known) {
  const ts_plan_time *t = &x->load.time;
  TS_DO(ts_str_append(s, "%-16s %-17s %-6s %8.3f (%.3f, %.3f) %10.2f %8.1f",
                      c->name, ts_shard_kind_name(p->kind), ts_table_kernel(c),
                      ts_plan_time_sum(t), t->lookup + t->backward,
                      t->input + t->output + t->gradient, mib(x->memory_bytes),
                      known->ids));
  TS_DO(ts_str_append(s, " %10.0f %5d (%d) %11" PRId64 " %-16s %s", //
                      known->distinct, c->dim, p->shards[0].n_cols, c->rows,
                      c->optimizer.kind, known->weighted ? "yes" : "no "));
  TS_DO(ts_str_append(s, " %3d", c->features.n));
  TS_DO(print_where(s, p));
  return ts_str_append(s, "\n");
}

static ts_err print_tables(ts_str *s, const ts_plan_report *r, const ts_plan *p,
                           const ts_plan_request *q) {
  ts_err err = TS_OK;
  ts_cost c = {0};
  TS_TRY(ts_cost_create(&c, q));
  TS_TRY(ts_str_append(
      s, "table            sharding          kernel  ms of all ranks (tables, "
         "wires) MiB   ids/sample  distinct   dim (columns) rows optimizer "
         "weighted features ranks\n"));
  for (int32_t t = 0; t < p->n_tables; t++)
    TS_TRY(print_table(s, &r->tables[t], &p->tables[t], &q->config->tables[t],
                       &c.tables[t]));
done:
  ts_cost_reset(&c);
  return err;
}

/* ---- tables in slow memory ----------------------------------------------- */

/* Rows that a batch has in all shards of a table, and those without a line. */
static void rows_of(double *distinct, double *late, const ts_cost *c, int32_t t,
                    const ts_table_plan *p) {
  const double factor = c->tables[t].load_factor;
  *distinct = *late = 0;
  for (int32_t k = 0; k < p->n_shards; k++) {
    *distinct += ts_cost_distinct(c, t, p->kind, &p->shards[k]);
    *late += ts_cost_misses(c, t, p->kind, &p->shards[k], factor);
  }
  *late = fmin(*late, *distinct);
}

static ts_err print_tier(ts_str *s, const ts_plan *p, const ts_cost *c,
                         int32_t t) {
  const ts_table_config *x = &c->request->config->tables[t];
  const double factor = c->tables[t].load_factor;
  const bool cached = ts_table_is_cached(x);
  double distinct, late;
  rows_of(&distinct, &late, c, t, &p->tables[t]);
  TS_DO(ts_str_append(s, "%-16s %-6s %-7s %-6s ", x->name, ts_table_kernel(x),
                      x->auto_kernel ? "planner" : "deck", ts_table_tier(x)));
  if (!cached)
    return ts_str_append(s, "%6s %-7s %12s %9.0f %9.0f\n", "-", "-", "-",
                         distinct, distinct);
  return ts_str_append(s, "%6.3g %-7s %12.0f %9.0f %9.0f\n", factor,
                       ts_table_is_open(x) ? "planner" : "deck",
                       factor * (double)x->rows, distinct, late);
}

/* Why the planner chose slow memory for tables. */
static ts_err print_why(ts_str *s, const ts_plan *p, const ts_plan_request *q) {
  double bytes;
  int32_t rank;
  const int32_t n = ts_plan_n_kernels(p);
  if (!n) return TS_OK;
  TS_DO(ts_plan_fused_bytes(&bytes, &rank, p, q));
  return ts_str_append(s,
                       "kernel chosen for %d tables: with their rows in fast "
                       "memory rank %d would need %.1f MiB of %.1f\n",
                       n, rank, mib(bytes), mib(q->memory_bytes));
}

static ts_err print_tiers(ts_str *s, const ts_plan *p,
                          const ts_plan_request *q) {
  ts_err err = TS_OK;
  ts_cost c = {0};
  bool any = false;
  TS_TRY(ts_cost_create(&c, q));
  for (int32_t t = 0; t < p->n_tables; t++) {
    if (!ts_table_is_slow(&q->config->tables[t])) continue;
    if (!any)
      TS_TRY(ts_str_append(s, "%-16s %-6s %-7s %-6s %6s %-7s %12s %9s %9s\n",
                           "in slow memory", "kernel", "by", "tier", "load",
                           "by", "lines", "rows/step", "missing"));
    any = true;
    TS_TRY(print_tier(s, p, &c, t));
  }
done:
  ts_cost_reset(&c);
  return err;
}

/* ---- summary ------------------------------------------------------------- */

static ts_err print_kinds(ts_str *s, const ts_plan *p) {
  int32_t n[TS_SHARD_COUNT] = {0};
  for (int32_t t = 0; t < p->n_tables; t++) n[p->tables[t].kind]++;
  TS_DO(ts_str_append(s, "%d tables on %d ranks of %d nodes:", p->n_tables,
                      p->n_ranks, p->n_nodes));
  for (int k = 0; k < TS_SHARD_COUNT; k++)
    if (n[k])
      TS_DO(ts_str_append(s, " %d %s", n[k],
                          ts_shard_kind_name((ts_shard_kind)k)));
  return ts_str_append(s, "\n");
}

static ts_err print_traffic(ts_str *s, const ts_plan_report *r) {
  ts_plan_traffic most = {0};
  for (int32_t k = 0; k < r->n_ranks; k++) {
    double *to = (double *)&most;
    const double *from = (const double *)&r->ranks[k].load.sent;
    for (size_t i = 0; i < sizeof most / sizeof(double); i++)
      to[i] = fmax(to[i], from[i]);
  }
  return ts_str_append(
      s,
      "MiB that a rank sends in a step, at most: ids %.3f, embeddings %.3f, "
      "gradients %.3f, dense %.3f; to other nodes %.3f\n",
      mib(most.input), mib(most.output), mib(most.gradient), mib(most.dense),
      mib(most.cross));
}

static ts_err print_summary(ts_str *s, const ts_plan_report *r) {
  const double mean_over = r->imbalance;
  TS_DO(ts_str_append(
      s,
      "predicted step %.3f ms: tables %.3f (rank %d), dense %.3f, hidden "
      "%.3f; imbalance (slowest / mean) %.3f\n",
      r->step_ms, r->sparse_ms, r->slowest, r->dense_ms, r->hidden_ms,
      mean_over));
  TS_DO(ts_str_append(s,
                      "predicted memory of the fullest rank (%d): %.1f MiB, "
                      "%.1f MiB of %.1f left\n",
                      r->fullest, mib(r->memory_bytes),
                      mib(r->limit - r->memory_bytes), mib(r->limit)));
  TS_DO(print_traffic(s, r));
  if (r->n_tried)
    TS_DO(ts_str_append(s, "placements tried: %" PRId64 "\n", r->n_tried));
  return TS_OK;
}

ts_err ts_plan_report_print(ts_str *s, const ts_plan_report *r,
                            const ts_plan *p, const ts_plan_request *q,
                            int32_t rows) {
  TS_DO(print_kinds(s, p));
  TS_DO(print_summary(s, r));
  TS_DO(print_ranks(s, r, rows));
  TS_DO(print_tables(s, r, p, q));
  TS_DO(print_why(s, p, q));
  return print_tiers(s, p, q);
}

/* ---- JSON ---------------------------------------------------------------- */

#define NUMBERS(object, names, values)                                         \
  ts_json_numbers(object, sizeof names / sizeof *names, names, values)

static json_t *json_rank(const ts_plan_report *r, int32_t k) {
  static const char *const names[] = {
      "rank",         "bytes",       "ms",          "input_ms",   "lookup_ms",
      "output_ms",    "gradient_ms", "backward_ms", "slow_bytes", "disk_bytes",
      "pinned_bytes", "sent_bytes",  "cross_bytes", "shards"};
  const ts_plan_rank *x = &r->ranks[k];
  const ts_plan_time *t = &x->load.time;
  const ts_plan_memory *m = &x->load.memory;
  const ts_plan_traffic *s = &x->load.sent;
  const double values[] = {k,
                           rint(ts_plan_memory_sum(m)),
                           ts_plan_time_sum(t),
                           t->input,
                           t->lookup,
                           t->output,
                           t->gradient,
                           t->backward,
                           rint(m->slow),
                           rint(m->disk),
                           rint(m->pinned),
                           rint(s->input + s->output + s->gradient + s->dense),
                           rint(s->cross),
                           x->n_shards};
  json_t *json = json_object();
  NUMBERS(json, names, values);
  return json;
}

static json_t *json_table(const ts_plan_report *r, const ts_plan *p,
                          const ts_plan_request *q, int32_t t) {
  const ts_plan_table *x = &r->tables[t];
  const ts_table_config *c = &q->config->tables[t];
  const bool slow = ts_table_is_slow(c);
  const double factor =
      q->load_factor ? q->load_factor[t] : ts_table_load_factor(c);
  return json_pack(
      "{s:o,s:s,s:i,s:i,s:o,s:o,s:s,s:s,s:o}", "table", ts_json_text(c->name),
      "sharding", ts_shard_kind_name(p->tables[t].kind), "columns",
      p->tables[t].shards[0].n_cols, "shards", p->tables[t].n_shards, "ms",
      ts_json_number(ts_plan_time_sum(&x->load.time)), "bytes",
      ts_json_number(rint(x->memory_bytes)), "kernel", ts_table_kernel(c),
      "kernel_by", c->auto_kernel ? "planner" : "deck", "load_factor",
      ts_json_number(slow ? factor : 1));
}

json_t *ts_plan_report_json(const ts_plan_report *r, const ts_plan *p,
                            const ts_plan_request *q) {
  static const char *const names[] = {"n_ranks",      "n_nodes",    "step_ms",
                                      "sparse_ms",    "dense_ms",   "hidden_ms",
                                      "imbalance",    "slowest",    "fullest",
                                      "memory_bytes", "limit_bytes"};
  const double values[] = {r->n_ranks,    p->n_nodes,
                           r->step_ms,    r->sparse_ms,
                           r->dense_ms,   r->hidden_ms,
                           r->imbalance,  r->slowest,
                           r->fullest,    rint(r->memory_bytes),
                           rint(r->limit)};
  json_t *json = json_object(), *ranks = json_array(), *tables = json_array();
  NUMBERS(json, names, values);
  for (int32_t k = 0; k < r->n_ranks; k++)
    json_array_append_new(ranks, json_rank(r, k));
  for (int32_t t = 0; t < r->n_tables; t++)
    json_array_append_new(tables, json_table(r, p, q, t));
  json_object_set_new(json, "ranks", ranks);
  json_object_set_new(json, "tables", tables);
  return json;
}
