/* metrics_auc.c - exact AUC and PR-AUC over ranks: samples are exchanged by
 * ranges of their prediction, each rank sorts one range, and needs of the
 * others only how many of both classes lie below and above. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "train/metrics_impl.h"

enum { PROBES = 128, DIGIT_BITS = 11, DIGITS = 3 };

/* Predictions are not negative, so their bits sort like the numbers. */
static uint32_t key_of(float p) {
  uint32_t u;
  memcpy(&u, &p, sizeof u);
  return u;
}

static int by_key(const void *a, const void *b) {
  const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return (x > y) - (x < y);
}

/* By prediction, digit by digit: a comparison sort would take longer than
 * all the rest. */
static ts_err sort_samples(ts_metric_sample *a, int64_t n) {
  ts_err err = TS_OK;
  ts_metric_sample *from = a, *to = NULL, *buffer = NULL;
  if (n < 2) return TS_OK;
  TS_TRY(ts_mem_array(&buffer, n, sizeof *buffer, TS_TAG_METRICS));
  to = buffer;
  for (int digit = 0; digit < DIGITS; digit++) {
    const int shift = digit * DIGIT_BITS, mask = (1 << DIGIT_BITS) - 1;
    int64_t at[(1 << DIGIT_BITS) + 1] = {0};
    for (int64_t i = 0; i < n; i++)
      at[(key_of(from[i].p) >> shift & mask) + 1]++;
    for (int d = 1; d < mask; d++) at[d + 1] += at[d];
    for (int64_t i = 0; i < n; i++)
      to[at[key_of(from[i].p) >> shift & mask]++] = from[i];
    ts_metric_sample *other = from;
    from = to;
    to = other;
  }
  memcpy(a, from, (size_t)n * sizeof *a);
done:
  ts_mem_free(buffer);
  return err;
}

/* W - 1 borders of about equal parts, from probes of all ranks. */
static ts_err find_borders(const ts_metrics *m, uint32_t *borders, int w,
                           ts_comm *comm) {
  ts_err err = TS_OK;
  uint32_t own[PROBES] = {0}, *all = NULL;
  for (int i = 0; i < PROBES && m->place.n; i++)
    own[i] = key_of(m->ring[m->place.n * i / PROBES].p);
  TS_TRY(ts_mem_array(&all, (int64_t)w * PROBES, sizeof *all, TS_TAG_METRICS));
  TS_TRY(ts_comm_gather_all(comm, all, own, sizeof own));
  qsort(all, (size_t)w * PROBES, sizeof *all, by_key);
  for (int r = 0; r + 1 < w; r++) borders[r] = all[(r + 1) * PROBES];
done:
  ts_mem_free(all);
  return err;
}

static int part_of(const uint32_t *borders, int w, float p) {
  int r = 0;
  while (r + 1 < w && key_of(p) >= borders[r]) r++;
  return r;
}

/* This rank's range of all samples. */
static ts_err exchange(const ts_metrics *m, ts_exchange *x, int64_t *bytes,
                       ts_metric_sample **send, ts_comm *comm) {
  const int w = ts_comm_size(comm);
  uint32_t borders[w];
  int64_t at[w];
  ts_token token;
  TS_DO(find_borders(m, borders, w, comm));
  TS_DO(ts_mem_array(send, m->place.n, sizeof **send, TS_TAG_METRICS));
  memset(bytes, 0, (size_t)w * sizeof *bytes);
  for (int64_t i = 0; i < m->place.n; i++)
    bytes[part_of(borders, w, m->ring[i].p)] += (int64_t)sizeof **send;
  at[0] = 0;
  for (int r = 1; r < w; r++)
    at[r] = at[r - 1] + bytes[r - 1] / (int64_t)sizeof **send;
  for (int64_t i = 0; i < m->place.n; i++) {
    const ts_metric_sample *one = &m->ring[i];
    (*send)[at[part_of(borders, w, one->p)]++] = *one;
  }
  x->send = *send;
  x->send_bytes = bytes;
  TS_DO(ts_comm_exchange(comm, &token, x, NULL));
  return ts_comm_wait(&token);
}

/* A soft label is a positive and a negative sample, by its share of each. */
static void take(const ts_metric_sample *x, double *pos, double *neg) {
  const double y = (double)x->y;
  *pos += (double)x->w * y;
  *neg += (double)x->w * (1 - y);
}

/* Precision by recall: of the groups of equal predictions, the greatest first,
 * with POS and NEG in the ranges above. */
static double sweep_down(const ts_metric_sample *a, int64_t n, double pos,
                         double neg) {
  double area = 0;
  while (n > 0) {
    const float p = a[n - 1].p;
    const double before = pos;
    for (; n > 0 && a[n - 1].p == p; n--) take(&a[n - 1], &pos, &neg);
    if (pos > before) area += (pos - before) * (pos / (pos + neg));
  }
  return area;
}

/* Pairs in order within the range, and its positives and negatives. */
static void sweep(const ts_metric_sample *a, int64_t n, double sums[3]) {
  for (int64_t i = 0; i < n;) {
    double pos = 0, neg = 0;
    const float p = a[i].p;
    for (; i < n && a[i].p == p; i++) take(&a[i], &pos, &neg);
    sums[0] += pos * (sums[2] + 0.5 * neg);
    sums[1] += pos;
    sums[2] += neg;
  }
}

/* The ranges' figures together: ALL has each rank's area, positives and
 * negatives. */
static ts_err join_ranges(const double *all, const ts_metric_sample *a,
                          int64_t n, ts_metrics_result *r, ts_comm *comm) {
  const int w = ts_comm_size(comm), me = ts_comm_rank(comm);
  double area = 0, pos = 0, neg = 0, above[2] = {0};
  for (int k = 0; k < w; k++) {
    area += all[3 * k] + all[3 * k + 1] * neg;
    pos += all[3 * k + 1];
    neg += all[3 * k + 2];
    if (k > me) above[0] += all[3 * k + 1];
    if (k > me) above[1] += all[3 * k + 2];
  }
  r->pr_auc = sweep_down(a, n, above[0], above[1]);
  TS_DO(ts_comm_sum_f64(comm, &r->pr_auc, 1));
  if (pos > 0) r->pr_auc /= pos;
  r->auc = pos > 0 && neg > 0 ? area / (pos * neg) : 0.5;
  return TS_OK;
}

ts_err ts_metrics_sort(const ts_metrics *m, ts_buffer *range, int64_t *n,
                       ts_comm *comm) {
  ts_err err = TS_OK;
  const int w = ts_comm_size(comm);
  int64_t send_bytes[w], recv_bytes[w];
  ts_metric_sample *send = NULL;
  ts_exchange x = {.recv_bytes = recv_bytes};
  x.recv = (ts_buffer){.space = TS_SPACE_HOST,
                       .tag = TS_TAG_METRICS,
                       .owned = true,
                       .device = ts_lane_device(ts_comm_lane(comm))};
  *n = 0;
  TS_TRY(exchange(m, &x, send_bytes, &send, comm));
  for (int k = 0; k < w; k++) *n += recv_bytes[k];
  *n /= (int64_t)sizeof *send;
  TS_TRY(sort_samples(x.recv.ptr, *n));
done:
  *range = x.recv;
  ts_mem_free(send);
  return err;
}

ts_err ts_metrics_auc(const ts_metrics *m, ts_metrics_result *r,
                      ts_comm *comm) {
  ts_err err = TS_OK;
  int64_t n;
  ts_buffer range;
  double own[3] = {0}, all[3 * ts_comm_size(comm)];
  TS_TRY(ts_metrics_sort(m, &range, &n, comm));
  sweep(range.ptr, n, own);
  TS_TRY(ts_comm_gather_all(comm, all, own, sizeof own));
  TS_TRY(join_ranges(all, range.ptr, n, r, comm));
done:
  ts_buffer_reset(&range);
  return err;
}
