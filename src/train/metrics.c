/* metrics.c - sums over samples, and a window of the newest ones. */
#include "train/metrics.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "train/metrics_impl.h"

ts_err ts_metrics_create(ts_metrics **out, int64_t window, int n_ranks) {
  ts_metrics *m = NULL;
  TS_DO(ts_mem_alloc(&m, sizeof *m, TS_TAG_METRICS));
  m->keep_all = window < 0;
  m->limit = window > 0 ? (window + n_ranks - 1) / n_ranks : 0;
  *out = m;
  return TS_OK;
}

void ts_metrics_destroy(ts_metrics *m) {
  if (!m) return;
  ts_metrics_leave(m);
  ts_mem_free_all(m->ring, m);
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

ts_err ts_metrics_add(ts_metrics *m, const float *p, const float *y,
                      const float *w, int64_t n, int32_t stride) {
  if (m->keep_all || m->limit > 0) TS_DO(ts_metrics_reserve(m, m->place.n + n));
  const ts_tally_args a = {.sums = &m->sums,
                           .place = &m->place,
                           .ring = m->ring,
                           .limit = m->capacity,
                           .prediction = p,
                           .label = y,
                           .weight = w,
                           .n = n,
                           .stride = stride};
  return ts_tally_host(&a);
}

static void finish(const ts_metric_sums *s, double *logloss, double *ne,
                   double *calibration, double *accuracy) {
  const double w = s->weight > 0 ? s->weight : 1;
  const double b = fmin(fmax(s->positive / w, 1e-12), 1 - 1e-12);
  *logloss = s->loss / w;
  *ne = *logloss / -(b * log(b) + (1 - b) * log1p(-b));
  *calibration = s->positive > 0 ? s->predicted / s->positive : 0;
  *accuracy = s->correct / w;
}

ts_err ts_metrics_compute(ts_metrics *m, ts_metrics_result *r,
                          int64_t auc_samples, ts_comm *comm) {
  ts_metric_sums all[2] = {0};
  double rest;
  *r = (ts_metrics_result){.auc = 0.5};
  TS_DO(ts_metrics_fetch(m));
  all[0] = m->sums;
  for (int64_t i = 0; i < m->place.n; i++)
    ts_metric_sums_add(&all[1], m->ring[i]);
  TS_DO(ts_comm_sum_f64(comm, (double *)all, sizeof all / 8));
  r->n_samples = all[0].n;
  r->weight = all[0].weight;
  finish(&all[0], &r->logloss, &r->ne, &r->calibration, &r->accuracy);
  finish(&all[1], &r->window_logloss, &r->window_ne, &r->window_calibration,
         &rest);
  if (auc_samples) TS_DO(ts_metrics_auc(m, auc_samples, &r->auc, comm));
  return TS_OK;
}

/* ---- checkpoints --------------------------------------------------------- */

ts_err ts_metrics_save(ts_metrics *m, ts_ckpt *c, const char *prefix,
                       ts_comm *comm) {
  char name[256];
  const int w = ts_comm_size(comm), me = ts_comm_rank(comm);
  int64_t counts[w], total = 0, row0 = 0;
  ts_ckpt_item *item;
  TS_DO(ts_metrics_fetch(m));
  ts_metric_sums sums = m->sums;
  TS_DO(ts_comm_sum_f64(comm, (double *)&sums, sizeof sums / 8));
  TS_DO(ts_comm_gather_all(comm, counts, &m->place.n, sizeof m->place.n));
  for (int r = 0; r < w; r++) {
    if (r < me) row0 += counts[r];
    total += counts[r];
  }
  snprintf(name, sizeof name, "%.200s/sums", prefix);
  TS_DO(ts_ckpt_add_value(c, name, TS_F64, sizeof sums / 8, &sums));
  snprintf(name, sizeof name, "%.200s/window_samples", prefix);
  TS_DO(ts_ckpt_add_value(c, name, TS_I64, 1, &total));
  if (!total) return TS_OK;
  /* The oldest first, so that a smaller window later forgets the right ones:
   * within a rank; between ranks the order is by rank. */
  snprintf(name, sizeof name, "%.200s/window", prefix);
  TS_DO(ts_ckpt_add_item(c, name, TS_F32, total, 3, &item));
  const int64_t next = m->place.next, old = m->place.n - next;
  if (old)
    TS_DO(ts_ckpt_add_piece(item, true, false, row0, old, m->ring + next));
  if (next)
    TS_DO(ts_ckpt_add_piece(item, true, false, row0 + old, next, m->ring));
  return TS_OK;
}

static ts_err take_window(ts_metrics *m, const ts_ckpt *c, const char *path,
                          const char *prefix, ts_comm *comm) {
  ts_err err = TS_OK;
  char name[256];
  ts_ckpt window = {0};
  ts_ckpt_item *item;
  ts_metric_sample *rows = NULL;
  const int w = ts_comm_size(comm), me = ts_comm_rank(comm);
  int64_t total = 0;
  snprintf(name, sizeof name, "%.200s/window_samples", prefix);
  const ts_ckpt_value *v = ts_ckpt_value_of(c, name);
  if (v && v->dtype == TS_I64 && v->n == 1)
    memcpy(&total, v->ptr, sizeof total);
  if (total < 1) goto done;
  snprintf(name, sizeof name, "%.200s/window", prefix);
  TS_TRY(ts_ckpt_add_item(&window, name, TS_F32, total, 3, &item));
  /* With no piece to fill yet: whether the file has so many rows. */
  TS_TRY(ts_ckpt_load_items(&window, path, comm));
  const int64_t from = total * me / w, to = total * (me + 1) / w;
  TS_TRY(ts_mem_array(&rows, to - from, sizeof *rows, TS_TAG_METRICS));
  TS_TRY(ts_ckpt_add_piece(item, false, true, from, to - from, rows));
  TS_TRY(ts_ckpt_load_items(&window, path, comm));
  if (!m->keep_all && m->limit == 0) goto done;
  TS_TRY(ts_metrics_reserve(m, to - from));
  for (int64_t i = 0; i < to - from; i++)
    ts_metric_push(m->ring, &m->place, m->capacity, rows[i]);
done:
  ts_ckpt_reset(&window);
  ts_mem_free(rows);
  return err;
}

ts_err ts_metrics_load(ts_metrics *m, const ts_ckpt *c, const char *path,
                       const char *prefix, ts_comm *comm) {
  char name[256];
  snprintf(name, sizeof name, "%.200s/sums", prefix);
  const ts_ckpt_value *v = ts_ckpt_value_of(c, name);
  m->sums = (ts_metric_sums){0};
  m->place = (ts_metric_place){0};
  if (v && v->dtype == TS_F64 && v->n == sizeof m->sums / 8 &&
      ts_comm_rank(comm) == 0)
    memcpy(&m->sums, v->ptr, sizeof m->sums);
  TS_DO(take_window(m, c, path, prefix, comm));
  return ts_metrics_put(m);
}
