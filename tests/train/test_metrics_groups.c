/* test_metrics_groups.c - figures within groups and of bins of predictions,
 * whose samples lie on any rank, beside loops over all samples.  ranks: 1 2 4
 */
#include <math.h>

#include "base/mem.h"
#include "tests/support/folder.h"
#include "dense/tally.h"
#include "train/metrics_groups.h"

TS_EACH_TEST_BETWEEN(folder_start, folder_stop)

enum { N = 400, GROUPS = 37 };
static float p[N], y[N], w[N];
static int32_t lengths[N];
static int64_t group[N], ids[2 * N];

/* 0: with ties; 1: no two predictions are the same; 2: labels are numbers. */
static void make(int kind) {
  for (int i = 0; i < N; i++) {
    const int x = i * 131 % 997;
    p[i] = kind == 1 ? (float)(i * 37 % N) / N : (float)(x % 9) / 10;
    y[i] = kind == 2 ? (float)(x % 5) / 4 : (float)(x % 7 < 2);
    group[i] = (int64_t)x * x % GROUPS - 3;
    if (group[i] == 1) y[i] = 0;
    if (group[i] == 6) y[i] = 1;
    w[i] = i % 19 ? (float)(1 + i % 3) : 0;
    lengths[i] = i % 23 ? 1 + i % 2 : 0; /* 0: of no group */
  }
}

static bool counts(int i, int64_t g) {
  return lengths[i] > 0 && w[i] > 0 && group[i] == g;
}

/* Samples of I's group that stand before it whatever the order of ties, and
 * those that are tied with it. */
static void place(int i, int *before, int *tied, int *worse) {
  *before = *tied = *worse = 0;
  for (int k = 0; k < N; k++) {
    if (!counts(k, group[i])) continue;
    *before += p[k] > p[i];
    *tied += p[k] == p[i];
    *worse += p[k] == p[i] && (y[k] < y[i] || (y[k] == y[i] && k < i));
  }
}

static int by_label(const void *a, const void *b) {
  const float x = *(const float *)a, z = *(const float *)b;
  return (x < z) - (x > z);
}

static double ndcg(int64_t g, int at) {
  double sum = 0, best = 0;
  float labels[N];
  int n = 0, before, tied, worse;
  for (int i = 0; i < N; i++) {
    if (!counts(i, g)) continue;
    place(i, &before, &tied, &worse);
    for (int k = before; k < before + tied && k < at; k++)
      sum += (double)y[i] / tied / log2(k + 2.0);
    labels[n++] = y[i];
  }
  qsort(labels, (size_t)n, sizeof *labels, by_label);
  for (int k = 0; k < n && k < at; k++)
    best += (double)labels[k] / log2(k + 2.0);
  return sum / best;
}

/* Pairs of the group, and its weight; 0 where a class is missing. */
static double auc(int64_t g, double *weight) {
  double area = 0, pairs = 0, all = 0;
  for (int i = 0; i < N; i++) {
    if (!counts(i, g)) continue;
    all += (double)w[i];
    for (int k = 0; k < N; k++) {
      if (!counts(k, g) || !(y[i] > 0.5f) || y[k] > 0.5f) continue;
      const double both = (double)w[i] * (double)w[k];
      pairs += both;
      area += p[i] > p[k] ? both : p[i] == p[k] ? both / 2 : 0;
    }
  }
  *weight = pairs > 0 ? all : 0;
  return pairs > 0 ? area / pairs : 0;
}

static ts_group_figures plain(int at) {
  ts_group_figures all = {0};
  double weights = 0, n = 0;
  for (int64_t g = -3; g < GROUPS; g++) {
    double weight, positives = 0, found = 0, first = N;
    int before, tied, worse;
    const double area = auc(g, &weight);
    all.gauc += weight * area;
    weights += weight;
    for (int i = 0; i < N; i++) {
      if (!counts(i, g) || !(y[i] > 0.5f)) continue;
      place(i, &before, &tied, &worse);
      positives += 1;
      found += before + worse < at;
      first = fmin(first, before + worse + 1);
    }
    if (!(positives > 0)) continue;
    n += 1;
    all.hit_rate += found > 0;
    all.mrr += 1 / first;
    all.recall += found / positives;
    all.ndcg += ndcg(g, at);
  }
  return (ts_group_figures){all.gauc / weights, all.ndcg / n, all.hit_rate / n,
                            all.mrr / n, all.recall / n};
}

static void near(double got, double want) {
  ck_assert_double_eq_tol(got, want, 1e-11);
}

static ts_tally_args samples(int from, int n) {
  return (ts_tally_args){.prediction = p + from,
                         .label = y + from,
                         .weight = w + from,
                         .n = n,
                         .row = 1,
                         .stride = 1};
}

/* Samples dealt out to the ranks, in batches, of the second of two features. */
static void add(ts_groups *g, int from, int to) {
  ts_jagged features[2] = {0};
  ts_batch b = {.n = to - from,
                .n_tasks = 1,
                .weights = w + from,
                .kjt = {.features = features, .n_features = 2}};
  int n = 0;
  for (int i = from; i < to; i++)
    for (int k = 0; k < lengths[i]; k++) ids[n++] = k ? 99 : group[i];
  features[1] = (ts_jagged){.lengths = lengths + from, .ids = ids, .n_ids = n};
  const ts_tally_args a = samples(from, to - from);
  ck_assert_ok(ts_groups_add(g, &b, 1, &a));
}

TS_TESTS(groups_over_ranks, 0, 9) {
  static const int places[] = {1, 3, 100};
  const int at = places[_i % 3];
  ts_groups *g;
  ts_metrics_result r;
  make(_i / 3);
  ck_assert_ok(ts_groups_create(&g));
  for (int from = 0; from < N; from += 40)
    add(g, from + 40 * f.rank / f.size, from + 40 * (f.rank + 1) / f.size);
  ck_assert_ok(ts_groups_compute(g, at, &r, f.comm));
  const ts_group_figures want = plain(at);
  near(r.groups.gauc, want.gauc);
  near(r.groups.ndcg, want.ndcg);
  near(r.groups.hit_rate, want.hit_rate);
  near(r.groups.mrr, want.mrr);
  near(r.groups.recall, want.recall);
  ts_groups_destroy(g);
}

TS_TEST(no_groups) {
  ts_groups *g;
  ts_metrics_result r;
  ck_assert_ok(ts_groups_create(&g));
  ck_assert_ok(ts_groups_compute(g, 10, &r, f.comm));
  ck_assert_double_eq(r.groups.gauc, 0.5);
  ck_assert_double_eq(r.groups.ndcg, 0);
  ts_groups_destroy(g);
}

/* ---- bins ---------------------------------------------------------------- */

/* How many that count have a lesser prediction than that of I. */
static int rank_of(int i) {
  int n = 0;
  for (int k = 0; k < N; k++) n += w[k] > 0 && p[k] < p[i];
  return n;
}

static ts_metric_bin bin_of(int b, int n_bins, int all) {
  ts_metric_bin x = {.least = 2, .greatest = -1};
  for (int i = 0; i < N; i++) {
    if (!(w[i] > 0) || rank_of(i) * n_bins / all != b) continue;
    x.n++;
    x.weight += (double)w[i];
    x.predicted += (double)w[i] * (double)p[i];
    x.observed += (double)w[i] * (double)y[i];
    x.least = fmin(x.least, (double)p[i]);
    x.greatest = fmax(x.greatest, (double)p[i]);
  }
  return x;
}

static void near_to(double got, double want) {
  ck_assert_double_eq_tol(got, want, 1e-9);
}

/* More bins than different predictions, and as make. */
TS_TESTS(bins_are_of_all_samples, 0, 3) {
  enum { MOST = 30 };
  const int n_bins = _i ? 10 : MOST;
  ts_metric_bin bins[MOST];
  ts_metrics *m;
  ts_metrics_result r;
  int all = 0;
  make(_i);
  for (int i = 0; i < N; i++) all += w[i] > 0;
  ck_assert_ok(ts_metrics_create(&m, -1, f.size));
  for (int i = f.rank; i < N; i += f.size) {
    const ts_tally_args one = samples(i, 1);
    ck_assert_ok(ts_metrics_add(m, &one));
  }
  ck_assert_ok(ts_metrics_compute(m, &r, f.comm));
  ck_assert_ok(ts_metrics_calibrate(m, bins, n_bins, f.comm));
  for (int b = 0; b < n_bins; b++) {
    const ts_metric_bin want = bin_of(b, n_bins, all);
    ck_assert(bins[b].n == want.n);
    if (!(want.n > 0)) continue;
    near_to(bins[b].weight, want.weight);
    near_to(bins[b].predicted, want.predicted);
    near_to(bins[b].observed, want.observed);
    ck_assert(bins[b].least == want.least);
    ck_assert(bins[b].greatest == want.greatest);
  }
  ts_metrics_destroy(m);
}
