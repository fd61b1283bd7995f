/* tiers.c - the collection's tables as a whole: in slow memory, means, figures.
 */
#include "shard/ebc_batch.h"

static ts_err each_group(ts_ebc *ebc, ts_err (*fn)(ts_tbe *)) {
  for (int32_t l = 0; l < ebc->n_shardings; l++)
    for (int32_t g = 0; g < ebc->shardings[l].n_groups; g++)
      TS_DO(fn(ebc->shardings[l].groups[g].tbe));
  return TS_OK;
}

ts_err ts_ebc_flush(ts_ebc *ebc) {
  return each_group(ebc, ts_tbe_flush);
}

ts_err ts_ebc_reload(ts_ebc *ebc) {
  return each_group(ebc, ts_tbe_reload);
}

void ts_ebc_look_at_averages(ts_ebc *ebc, int64_t at) {
  for (int32_t l = 0; l < ebc->n_shardings; l++)
    for (int32_t g = 0; g < ebc->shardings[l].n_groups; g++)
      ts_tbe_look_at_averages(ebc->shardings[l].groups[g].tbe, at);
}

ts_err ts_ebc_take_averages(ts_ebc *ebc, int64_t at, ts_lane *lane) {
  for (int32_t l = 0; l < ebc->n_shardings; l++)
    for (int32_t g = 0; g < ebc->shardings[l].n_groups; g++)
      TS_DO(ts_tbe_take_averages(ebc->shardings[l].groups[g].tbe, at, lane));
  return ts_lane_sync(lane);
}

static void add_count(ts_tier_count *to, const ts_tier_count *x) {
  to->n_ids += x->n_ids;
  to->n_unique += x->n_unique;
  to->n_hits += x->n_hits;
  to->n_misses += x->n_misses;
  to->n_conflicts += x->n_conflicts;
  to->n_evicted += x->n_evicted;
  to->n_written += x->n_written;
  to->bytes_in += x->bytes_in;
  to->bytes_out += x->bytes_out;
}

static void add_group(ts_ebc_tiers *sum, ts_tier_count *count, double *seconds,
                      const ts_tbe *tbe) {
  ts_tier_figures f;
  if (!ts_tbe_figures(tbe, &f)) return;
  sum->hold_s += f.hold_s;
  sum->fast_bytes += f.fast_bytes;
  sum->slow_bytes += f.slow_bytes;
  sum->scratch_bytes += f.scratch_bytes;
  sum->n_locks += f.n_locks;
  for (int32_t t = 0; count && t < ts_tbe_n_tables(tbe); t++) {
    const int32_t id = ts_tbe_table_of(tbe, t)->table_id;
    add_count(&count[id], &f.count[t]);
    if (f.table_s) seconds[id] += f.table_s[t];
  }
}

ts_ebc_tiers ts_ebc_tiers_of(const ts_ebc *ebc, ts_tier_count *count,
                             double *seconds) {
  ts_ebc_tiers sum = {0};
  for (int32_t l = 0; l < ebc->n_shardings; l++)
    for (int32_t g = 0; g < ebc->shardings[l].n_groups; g++)
      add_group(&sum, count, seconds, ebc->shardings[l].groups[g].tbe);
  return sum;
}
