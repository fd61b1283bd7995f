/* cost_tier.c - what slow memory adds to a step.
 *
 * Where the popularity of rows falls like a power, the share of ids that find
 * their row in the cache grows like a power of the load factor: 1 where all
 * rows are alike, the nearer to 0 the more of the ids go to few rows.  The
 * statistics of a feature's ids give one point of that curve. */
#include <math.h>
#include <string.h>

#include "shard/cost.h"

/* Among n ids of a sample were d different ones, and of those to come
 * growth d / n are new: all the others would find a line in a cache of d.
 * Where that is most of the rows, the hottest 1% say more. */
double ts_cost_power(const ts_plan_stats *s, double rows) {
  double lines = 0.01, hits = s->hot;
  if (!s->by_law && s->distinct > 0 && s->distinct < rows / 2) {
    lines = s->distinct / rows;
    hits = 1 - s->growth * s->distinct / s->n_sample;
  }
  return log(fmin(fmax(hits, lines), 0.999)) / log(lines);
}

/* Ids that find no line go to the other rows, which are about alike. */
double ts_cost_misses(const ts_cost *c, int32_t table, ts_shard_kind kind,
                      const ts_shard *s, double load_factor) {
  const double n = ts_cost_ids(c, table, kind, s);
  const double others = (double)s->n_rows * (1 - load_factor);
  const double late = n * (1 - pow(load_factor, c->tables[table].power));
  return others > 0 ? -others * expm1(-late / others) : 0;
}

double ts_cost_fetch_ms(const ts_cost *c, int32_t table, double n) {
  const ts_topology *m = c->request->topology;
  const ts_table_config *t = &c->request->config->tables[table];
  const bool disk = !strcmp(ts_table_tier(t), "file");
  const double rate = disk ? m->disk_gbytes_per_s : m->slow_gbytes_per_s;
  return 2 * n / rate / 1e6;
}

/* Tables without a cache cost what all tables do where the device's memory is
 * the host's. */
void ts_cost_tier(ts_load *l, const ts_cost *c, int32_t table,
                  ts_shard_kind kind, const ts_shard *s) {
  const ts_table_config *t = &c->request->config->tables[table];
  const double share = (double)s->n_cols / t->dim;
  const double bytes = (double)ts_row_bytes(t->dtype, s->n_cols) +
                       c->tables[table].state_bytes * share;
  if (ts_table_is_cached(t)) {
    if (c->request->hides_rows) return;
    const double n = ts_cost_ids(c, table, kind, s);
    const double misses =
        ts_cost_misses(c, table, kind, s, c->tables[table].load_factor);
    l->time.lookup += ts_cost_fetch_ms(c, table, misses * bytes) +
                      n * c->request->topology->lookup_ns / 1e6;
  } else if (c->request->discrete || !strcmp(ts_table_tier(t), "file")) {
    const double d = ts_cost_distinct(c, table, kind, s);
    l->time.lookup += ts_cost_fetch_ms(c, table, d * bytes);
  }
}
