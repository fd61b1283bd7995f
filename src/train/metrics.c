/* metrics.c - sums over samples, of all and of the newest steps. */
#include "train/metrics.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "train/metrics_impl.h"

ts_err ts_metrics_create(ts_metrics **out, int64_t window, int n_ranks) {
  ts_err err = TS_OK;
  ts_metrics *m = NULL;
  const int64_t kept = window < TS_AUC_SAMPLES ? window : TS_AUC_SAMPLES;
  TS_TRY(ts_mem_alloc(&m, sizeof *m, TS_TAG_METRICS));
  m->keep_all = window < 0;
  m->limit = kept > 0 ? (kept + n_ranks - 1) / n_ranks : 0;
  m->n_fresh = m->keep_all ? 1 : TS_FRESH_STEPS;
  TS_TRY(ts_mem_many(m->fresh, m->n_fresh, METRICS));
  TS_TRY(ts_metric_window_create(&m->window, window));
  *out = m;
done:
  if (err != TS_OK) ts_metrics_destroy(m);
  return err;
}

double ts_metrics_sums_bytes(void) {
  return (TS_FRESH_STEPS + TS_WINDOW_PARTS) * (double)sizeof(ts_metric_sums);
}

void ts_metrics_destroy(ts_metrics *m) {
  if (!m) return;
  ts_metrics_leave(m);
  ts_mem_free_all(m->window.part, m->fresh, m->ring, m);
}

ts_err ts_metrics_reserve(ts_metrics *m, int64_t want) {
  if (!m->keep_all && want > m->limit) want = m->limit;
  if (want <= m->capacity) return TS_OK;
  want += want / 2;
  if (!m->keep_all && want > m->limit) want = m->limit;
  TS_DO(ts_mem_extend(&m->ring, m->capacity, want, sizeof *m->ring,
                      TS_TAG_METRICS));
  m->capacity = want;
  return TS_OK;
}

ts_err ts_metrics_add(ts_metrics *m, const ts_tally_args *samples) {
  ts_tally_args a = *samples;
  if (m->keep_all || m->limit > 0)
    TS_DO(ts_metrics_reserve(m, m->place.n + a.n));
  a.sums = &m->fresh[m->at];
  a.place = &m->place;
  a.ring = m->ring;
  a.limit = m->capacity;
  return ts_tally_host(&a);
}

/* Steps that nobody gathers share the last place. */
void ts_metrics_step(ts_metrics *m) {
  if (!ts_metrics_is_full(m)) m->at++;
}

bool ts_metrics_is_full(const ts_metrics *m) {
  return m->at + 1 == m->n_fresh;
}

/* Each step's sums are added in the order of ranks, and steps one by one: how
 * many are gathered at once changes no bit, and so neither does a restart. */
ts_err ts_metrics_gather(ts_metrics *m, ts_comm *comm) {
  enum { AT_ONCE = 64 };
  ts_err err = TS_OK;
  const int w = ts_comm_size(comm);
  ts_metric_sums *all = NULL;
  TS_TRY(ts_metrics_fetch_fresh(m));
  const int64_t steps = m->at + 1;
  const int64_t most = steps < AT_ONCE ? steps : AT_ONCE;
  TS_TRY(ts_mem_many(all, w * most, METRICS));
  for (int64_t from = 0; from < steps; from += most) {
    const int64_t n = from + most < steps ? most : steps - from;
    TS_TRY(ts_comm_gather_all(comm, all, m->fresh + from,
                              n * (int64_t)sizeof *all));
    for (int64_t i = 0; i < n; i++) {
      for (int r = 1; r < w; r++) ts_metric_sums_join(&all[i], &all[r * n + i]);
      ts_metric_sums_join(&m->sums, &all[i]);
      ts_metric_window_push(&m->window, &all[i]);
    }
  }
  memset(m->fresh, 0, (size_t)steps * sizeof *m->fresh);
  m->at = 0;
done:
  ts_mem_free(all);
  return err;
}

double ts_metric_ne(const ts_metric_sums *s) {
  const double w = s->weight > 0 ? s->weight : 1;
  const double b = fmin(fmax(s->positive / w, 1e-12), 1 - 1e-12);
  return s->loss / w / -(b * log(b) + (1 - b) * log1p(-b));
}

static void finish(const ts_metric_sums *s, double *logloss, double *ne,
                   double *calibration, double *accuracy) {
  const double w = s->weight > 0 ? s->weight : 1;
  *logloss = s->loss / w;
  *ne = ts_metric_ne(s);
  *calibration = s->positive > 0 ? s->predicted / s->positive : 0;
  *accuracy = s->correct / w;
}

ts_err ts_metrics_compute(ts_metrics *m, ts_metrics_result *r, ts_comm *comm) {
  ts_metric_sums newest = {0};
  double rest;
  *r = (ts_metrics_result){.auc = 0.5};
  TS_DO(ts_metrics_gather(m, comm));
  for (int64_t i = 0; i < m->window.n; i++)
    ts_metric_sums_join(&newest, ts_metric_window_part(&m->window, i));
  r->n_samples = m->sums.n;
  r->weight = m->sums.weight;
  finish(&m->sums, &r->logloss, &r->ne, &r->calibration, &r->accuracy);
  finish(&newest, &r->window_logloss, &r->window_ne, &r->window_calibration,
         &rest);
  if (!m->keep_all && !m->limit) return TS_OK;
  TS_DO(ts_metrics_fetch(m));
  return ts_metrics_auc(m, r, comm);
}
