/* metrics_groups.c - GAUC, NDCG, hit rate, MRR and recall: each rank gets whole
 * groups, and sorts its samples by group and prediction. */
#include "train/metrics_groups.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "dense/tally.h"

typedef struct ts_group_sample {
  int64_t group;
  float p, y, w;
  int32_t rank; /* that gets it */
} ts_group_sample;

struct ts_groups {
  ts_group_sample *sample;
  size_t bytes;
  int64_t n;
};

ts_err ts_groups_create(ts_groups **out) {
  return ts_mem_alloc(out, sizeof **out, TS_TAG_METRICS);
}

void ts_groups_destroy(ts_groups *g) {
  if (!g) return;
  ts_mem_free_all(g->sample, g);
}

ts_err ts_groups_add(ts_groups *g, const ts_batch *b, int32_t feature,
                     const ts_tally_args *a) {
  const ts_jagged *ids = &b->kjt.features[feature];
  const size_t each = sizeof *g->sample, need = (size_t)(g->n + b->n) * each;
  int64_t at = 0;
  if (need > g->bytes) {
    const size_t more = need + need / 2;
    TS_DO(ts_mem_resize(&g->sample, g->bytes, more, TS_TAG_METRICS));
    g->bytes = more;
  }
  for (int32_t i = 0; i < b->n; i++) {
    const int64_t n = ts_jagged_length(ids, i);
    const float w = a->weight ? a->weight[i] : 1, y = a->label[i * a->stride];
    if (n > 0 && w != 0 && !isnan(y))
      g->sample[g->n++] = (ts_group_sample){.group = ids->ids[at],
                                            .p = a->prediction[i * a->row],
                                            .y = y,
                                            .w = w};
    at += n;
  }
  return TS_OK;
}

/* ---- of one group -------------------------------------------------------- */

typedef struct ts_group_sums {
  double auc, auc_weight; /* of groups with both classes, by their weight */
  double ndcg, hits, reciprocal, recall, n; /* of those with a positive */
} ts_group_sums;

/* Of equal predictions the least label is first: a tie counts as the worse
 * order. */
static int by_order(const void *a, const void *b) {
  const ts_group_sample *x = a, *z = b;
  if (x->group != z->group) return x->group < z->group ? -1 : 1;
  if (x->p != z->p) return x->p > z->p ? -1 : 1;
  return (x->y > z->y) - (x->y < z->y);
}

static int by_label(const void *a, const void *b) {
  const ts_group_sample *x = a, *z = b;
  return (x->y < z->y) - (x->y > z->y);
}

static void add_auc(ts_group_sums *s, const ts_group_sample *a, int64_t n) {
  double area = 0, above = 0, negatives = 0;
  for (int64_t i = 0; i < n;) {
    const float p = a[i].p;
    double pos = 0, neg = 0;
    for (; i < n && a[i].p == p; i++)
      *(a[i].y > 0.5f ? &pos : &neg) += (double)a[i].w;
    area += neg * (above + 0.5 * pos);
    above += pos;
    negatives += neg;
  }
  if (!(above > 0 && negatives > 0)) return;
  const double weight = above + negatives;
  s->auc += weight * area / (above * negatives);
  s->auc_weight += weight;
}

/* The gain of the first K places; equal predictions share theirs. */
static double gain(const ts_group_sample *a, int64_t n, int64_t k) {
  double sum = 0;
  for (int64_t i = 0; i < n && i < k;) {
    const int64_t from = i;
    double label = 0, discount = 0;
    for (; i < n && a[i].p == a[from].p; i++) {
      label += (double)a[i].y;
      if (i < k) discount += 1 / log2((double)i + 2);
    }
    sum += label / (double)(i - from) * discount;
  }
  return sum;
}

/* Sorts A, by label. */
static double best_gain(ts_group_sample *a, int64_t n, int64_t k) {
  double sum = 0;
  qsort(a, (size_t)n, sizeof *a, by_label);
  for (int64_t i = 0; i < n && i < k; i++)
    sum += (double)a[i].y / log2((double)i + 2);
  return sum;
}

static void add_group(ts_group_sums *s, ts_group_sample *a, int64_t n,
                      int64_t k) {
  int64_t positives = 0, found = 0, first = 0;
  add_auc(s, a, n);
  for (int64_t i = 0; i < n; i++) {
    if (!(a[i].y > 0.5f)) continue;
    if (!positives++) first = i + 1;
    found += i < k;
  }
  if (!positives) return;
  s->n += 1;
  s->hits += found > 0;
  s->reciprocal += 1 / (double)first;
  s->recall += (double)found / (double)positives;
  const double seen = gain(a, n, k);
  s->ndcg += seen / best_gain(a, n, k);
}

/* ---- of all -------------------------------------------------------------- */

static ts_err exchange(ts_groups *g, ts_exchange *x, int64_t *bytes,
                       ts_group_sample **send, ts_comm *comm) {
  const int w = ts_comm_size(comm);
  int64_t at[w];
  ts_token token;
  TS_DO(ts_mem_array(send, g->n, sizeof **send, TS_TAG_METRICS));
  memset(bytes, 0, (size_t)w * sizeof *bytes);
  for (int64_t i = 0; i < g->n; i++) {
    ts_group_sample *one = &g->sample[i];
    one->rank = (int32_t)(ts_mix64((uint64_t)one->group) % (uint64_t)w);
    bytes[one->rank] += (int64_t)sizeof *one;
  }
  at[0] = 0;
  for (int r = 1; r < w; r++)
    at[r] = at[r - 1] + bytes[r - 1] / (int64_t)sizeof **send;
  for (int64_t i = 0; i < g->n; i++)
    (*send)[at[g->sample[i].rank]++] = g->sample[i];
  x->send = *send;
  x->send_bytes = bytes;
  TS_DO(ts_comm_exchange(comm, &token, x, NULL));
  return ts_comm_wait(&token);
}

static ts_group_sums sum_groups(ts_group_sample *a, int64_t n, int64_t k) {
  ts_group_sums s = {0};
  if (n) qsort(a, (size_t)n, sizeof *a, by_order);
  for (int64_t from = 0, to = 0; from < n; from = to) {
    while (to < n && a[to].group == a[from].group) to++;
    add_group(&s, a + from, to - from, k);
  }
  return s;
}

ts_err ts_groups_compute(ts_groups *g, int64_t k, ts_metrics_result *r,
                         ts_comm *comm) {
  ts_err err = TS_OK;
  const int w = ts_comm_size(comm);
  int64_t send_bytes[w], recv_bytes[w], bytes = 0;
  ts_group_sample *send = NULL;
  ts_exchange x = {.recv_bytes = recv_bytes};
  x.recv = (ts_buffer){.space = TS_SPACE_HOST,
                       .tag = TS_TAG_METRICS,
                       .owned = true,
                       .device = ts_lane_device(ts_comm_lane(comm))};
  TS_TRY(exchange(g, &x, send_bytes, &send, comm));
  for (int i = 0; i < w; i++) bytes += recv_bytes[i];
  ts_group_sums s = sum_groups(x.recv.ptr, bytes / (int64_t)sizeof *send, k);
  TS_TRY(ts_comm_sum_f64(comm, (double *)&s, sizeof s / 8));
  const double n = s.n > 0 ? s.n : 1;
  r->groups =
      (ts_group_figures){.gauc = s.auc_weight > 0 ? s.auc / s.auc_weight : 0.5,
                         .ndcg = s.ndcg / n,
                         .hit_rate = s.hits / n,
                         .mrr = s.reciprocal / n,
                         .recall = s.recall / n};
done:
  ts_buffer_reset(&x.recv);
  ts_mem_free(send);
  return err;
}
