/* report_cache.c - figures of cached tables. */
#include "train/report_cache.h"

#include <math.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "runtime/trace.h"
#include "train/pipeline.h"

enum { N_COUNTS = sizeof(ts_tier_count) / sizeof(int64_t) };

static int64_t *numbers(ts_tier_count *c) {
  return (int64_t *)(void *)c;
}

/* Seconds in which the step had to wait for rows: all of them, where nothing
 * runs beside. */
static double exposed(const ts_trainer *t, double hold_s) {
  const bool beside =
      t->pipeline && t->pipeline->hides_rows && !t->config->run.serial_lanes;
  return beside ? fmin(t->prefetch_wait_s, hold_s) : hold_s;
}

/* Counts of all ranks; times are those of the slowest. */
static ts_err look(ts_cache_sums *s, ts_trainer *t) {
  const int32_t n = t->config->n_tables;
  double all[t->n_ranks][2];
  TS_DO(ts_trainer_rest(t));
  memset(s->count, 0, (size_t)n * sizeof *s->count);
  memset(s->table_s, 0, (size_t)n * sizeof *s->table_s);
  const ts_ebc_tiers own = ts_ebc_tiers_of(t->ebc, s->count, s->table_s);
  double times[2] = {own.hold_s, exposed(t, own.hold_s)};
  TS_DO(ts_comm_sum_i64(t->control, numbers(s->count), (int64_t)n * N_COUNTS));
  TS_DO(ts_comm_max_f64(t->control, s->table_s, n));
  TS_DO(ts_comm_gather_all(t->control, all, times, sizeof times));
  s->hold_s = s->exposed_s = 0;
  for (int r = 0; r < t->n_ranks; r++) {
    s->hold_s = fmax(s->hold_s, all[r][0]);
    s->exposed_s = fmax(s->exposed_s, all[r][1]);
  }
  s->t = ts_now();
  s->step = t->step;
  return TS_OK;
}

static ts_err allocate(ts_cache_sums *s, int32_t n) {
  TS_DO(ts_mem_many(s->count, n, MISC));
  return ts_mem_many(s->table_s, n, MISC);
}

ts_err ts_slow_report_create(ts_slow_report *r, ts_trainer *t) {
  const int32_t n = t->config->n_tables;
  ts_cache_sums *const all[] = {&r->first, &r->last, &r->now};
  *r = (ts_slow_report){0};
  for (int32_t i = 0; i < n; i++)
    r->n_slow += ts_table_is_slow(&t->config->tables[i]);
  if (!r->n_slow) return TS_OK;
  for (int k = 0; k < 3; k++) TS_DO(allocate(all[k], n));
  TS_DO(look(&r->first, t));
  return look(&r->last, t);
}

void ts_slow_report_reset(ts_slow_report *r) {
  ts_mem_free_all(r->first.count, r->last.count, r->now.count, r->first.table_s,
                  r->last.table_s, r->now.table_s);
  *r = (ts_slow_report){0};
}

ts_err ts_slow_report_pause(ts_slow_report *r, ts_trainer *t) {
  return r->n_slow ? look(&r->now, t) : TS_OK;
}

/* Leaves what came since the pause out of both spans. */
ts_err ts_slow_report_go_on(ts_slow_report *r, ts_trainer *t) {
  ts_err err = TS_OK;
  ts_cache_sums *const both[] = {&r->first, &r->last};
  ts_cache_sums after = {0};
  const int64_t n = t->config->n_tables;
  if (!r->n_slow) return TS_OK;
  TS_TRY(allocate(&after, (int32_t)n));
  TS_TRY(look(&after, t));
  for (int k = 0; k < 2; k++) {
    for (int64_t i = 0; i < n * N_COUNTS; i++)
      numbers(both[k]->count)[i] +=
          numbers(after.count)[i] - numbers(r->now.count)[i];
    for (int64_t i = 0; i < n; i++)
      both[k]->table_s[i] += after.table_s[i] - r->now.table_s[i];
    both[k]->hold_s += after.hold_s - r->now.hold_s;
    both[k]->exposed_s += after.exposed_s - r->now.exposed_s;
    both[k]->t += after.t - r->now.t;
  }
done:
  ts_mem_free_all(after.count, after.table_s);
  return err;
}

static ts_tier_count since(const ts_slow_report *r, const ts_cache_sums *from,
                           int32_t table) {
  ts_tier_count c;
  for (int k = 0; k < N_COUNTS; k++)
    numbers(&c)[k] =
        numbers(&r->now.count[table])[k] - numbers(&from->count[table])[k];
  return c;
}

static double share(int64_t a, int64_t b) {
  return b > 0 ? (double)a / (double)b : 0;
}

/* The part of the holds that the step waited for: compute waits for all
 * tables together, so it is the same for each. */
static double exposed_part(const ts_cache_sums *from, const ts_cache_sums *to) {
  const double hold = to->hold_s - from->hold_s;
  return hold > 0 ? (to->exposed_s - from->exposed_s) / hold : 0;
}

static ts_err log_table(const ts_slow_report *r, ts_trainer *t,
                        ts_metrics_log *log, int32_t i) {
  static const char *const names[] = {
      "unique",      "hit_rate",  "misses",     "conflicts",   "evictions",
      "write_backs", "mbytes_in", "mbytes_out", "prefetch_ms", "exposed_ms"};
  const ts_tier_count c = since(r, &r->last, i);
  const double n = (double)(r->now.step - r->last.step);
  const double own = r->now.table_s[i] - r->last.table_s[i];
  const double v[] = {(double)c.n_unique / n,
                      share(c.n_hits, c.n_unique),
                      (double)c.n_misses / n,
                      (double)c.n_conflicts / n,
                      (double)c.n_evicted / n,
                      (double)c.n_written / n,
                      (double)c.bytes_in / n / 1e6,
                      (double)c.bytes_out / n / 1e6,
                      1e3 * own / n,
                      1e3 * own * exposed_part(&r->last, &r->now) / n};
  return ts_metrics_log_line(
      log, &(ts_metrics_line){.step = t->step,
                              .table = t->config->tables[i].name,
                              .n = sizeof v / sizeof *v,
                              .names = names,
                              .values = v});
}

ts_err ts_slow_report_step(ts_slow_report *r, ts_trainer *t,
                           ts_metrics_log *log) {
  if (!r->n_slow || t->step == r->last.step) return TS_OK;
  TS_DO(look(&r->now, t));
  for (int32_t i = 0; t->rank == 0 && i < t->config->n_tables; i++)
    if (ts_table_is_slow(&t->config->tables[i])) TS_DO(log_table(r, t, log, i));
  const ts_cache_sums old = r->last;
  r->last = r->now;
  r->now = old;
  return TS_OK;
}

/* ---- the end ------------------------------------------------------------- */

/* The load factor at which only FIT of the misses are left.  Where the
 * popularity of rows falls like a power, the hit rate grows about like a power
 * of the load factor, and is 1 where all rows fit. */
static double wanted(double load_factor, double hit_rate, double fit) {
  const double hits = 1 - fit * (1 - hit_rate);
  if (hit_rate <= 0.001 || hit_rate >= 0.999 || load_factor >= 1) return 1;
  const double power = log(hit_rate) / log(load_factor);
  return fmin(1, exp(log(hits) / power));
}

static void note(const ts_slow_report *r, ts_trainer *t, int32_t i,
                 double seconds) {
  const double hold = r->now.hold_s - r->first.hold_s;
  const double late = r->now.exposed_s - r->first.exposed_s;
  const ts_table_config *c = &t->config->tables[i];
  const ts_tier_count n = since(r, &r->first, i);
  if (late < 0.05 * seconds || !n.n_misses || !ts_table_is_cached(c)) return;
  if (!t->pipeline->hides_rows) {
    const ts_pipeline_ops *p;
    for (int k = 0; (p = ts_pipeline_at(k)) && !p->hides_rows;) k++;
    ts_note("table %s: the step waits for its rows; pipeline.kind = "
            "\"%s\" would fetch them beside it",
            c->name, p ? p->name : "");
    return;
  }
  const double x = wanted(ts_table_load_factor(c), share(n.n_hits, n.n_unique),
                          fmax(0, hold - late) / hold);
  if (x > ts_table_load_factor(c) * 1.01)
    ts_note("table %s: misses limit the step: load factor %.2g -> %.2g would "
            "hide the misses",
            c->name, ts_table_load_factor(c), x);
}

static void print_table(const ts_slow_report *r, ts_trainer *t, int32_t i,
                        double n_steps) {
  char in[32], out[32];
  const ts_table_config *c = &t->config->tables[i];
  const ts_tier_count n = since(r, &r->first, i);
  ts_info("%-16s %-6s %6.3g %9.0f %8.2f%% %9.0f %9.0f %9s %9s", c->name,
          ts_table_kernel(c), ts_table_load_factor(c),
          (double)n.n_unique / n_steps, 100 * share(n.n_hits, n.n_unique),
          (double)n.n_misses / n_steps, (double)n.n_conflicts / n_steps,
          ts_str_bytes(in, (int64_t)((double)n.bytes_in / n_steps)),
          ts_str_bytes(out, (int64_t)((double)n.bytes_out / n_steps)));
}

static ts_err print_memory(ts_trainer *t) {
  char fast[32], slow[32], scratch[32];
  const ts_ebc_tiers own = ts_ebc_tiers_of(t->ebc, NULL, NULL);
  int64_t most[3] = {own.fast_bytes, own.slow_bytes, own.scratch_bytes};
  TS_DO(ts_comm_max_i64(t->control, most, 3));
  ts_info("most of a rank: %s in slow memory, %s of lines and their state, %s "
          "of scratch",
          ts_str_bytes(slow, most[1]), ts_str_bytes(fast, most[0]),
          ts_str_bytes(scratch, most[2]));
  return TS_OK;
}

ts_err ts_slow_report_end(ts_slow_report *r, ts_trainer *t) {
  if (!r->n_slow) return TS_OK;
  TS_DO(look(&r->now, t));
  const double n_steps = (double)(r->now.step - r->first.step);
  if (n_steps < 1) return TS_OK;
  const double hold = r->now.hold_s - r->first.hold_s;
  const double late = r->now.exposed_s - r->first.exposed_s;
  ts_info(" ");
  ts_info("%-16s %-6s %6s %9s %9s %9s %9s %9s %9s", "slow memory, a step", "",
          "load", "rows", "hits", "misses", "conflicts", "in", "out");
  for (int32_t i = 0; i < t->config->n_tables; i++)
    if (ts_table_is_slow(&t->config->tables[i])) print_table(r, t, i, n_steps);
  ts_info("rows fetched for %.3f ms a step, %.0f%% of it hidden",
          1e3 * hold / n_steps, hold > 0 ? 100 * (1 - late / hold) : 100.0);
  TS_DO(print_memory(t));
  for (int32_t i = 0; i < t->config->n_tables; i++)
    if (ts_table_is_slow(&t->config->tables[i]))
      note(r, t, i, r->now.t - r->first.t);
  return TS_OK;
}
