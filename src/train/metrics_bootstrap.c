/* metrics_bootstrap.c - Poisson bootstrap of two models' figures. */
#include "train/metrics_bootstrap.h"

#include <math.h>
#include <stdlib.h>

#include "base/auc.h"
#include "base/mem.h"
#include "base/rng.h"
#include "runtime/progress.h"
#include "runtime/watchdog.h"
#include "train/metrics_impl.h"

enum { KINDS = TS_PAIRED_KINDS, COPIES_MAX = 12 };

const char *const ts_paired_names[KINDS] = {"auc", "logloss", "ne"};

/* Of one model, in the order of its predictions. */
typedef struct ts_ranked {
  double loss; /* log loss */
  float p, y, w;
  uint32_t sample;
} ts_ranked;

typedef struct ts_resampling {
  const ts_bootstrap *o;
  ts_ranked *ranked[2]; /* (n) each */
  int64_t n;
  uint8_t *copies;         /* (n_threads, n) */
  double (*apart)[KINDS];  /* (n_resamples) second less first; 0: not mine */
  uint32_t at[COPIES_MAX]; /* a random word from at[k] on has more than k */
} ts_resampling;

/* ---- a replicate --------------------------------------------------------- */

/* What is left above the last of them is less than a word tells. */
static void find_copies(uint32_t at[COPIES_MAX]) {
  double share = exp(-1), sum = 0;
  for (int k = 0; k < COPIES_MAX; share /= ++k) {
    sum += share;
    at[k] = (uint32_t)fmin(sum * 0x1p32, UINT32_MAX);
  }
}

static void draw(uint8_t *copies, const ts_resampling *s, int32_t replicate) {
  uint32_t key[2], word[4];
  ts_rng_key(key, s->o->seed, TS_RNG_BOOTSTRAP);
  for (int64_t i = 0; i < s->n; i += 4) {
    const uint32_t counter[4] = {(uint32_t)(i / 4), 0, (uint32_t)replicate, 0};
    ts_philox(word, counter, key);
    for (int64_t k = i; k < i + 4 && k < s->n; k++) {
      int n = 0;
      for (int c = 0; c < COPIES_MAX; c++) n += word[k - i] >= s->at[c];
      copies[k] = (uint8_t)n;
    }
  }
}

/* COPIES NULL: each sample once.  Of samples of the same prediction a pair
 * counts half; a soft label is a part of both classes. */
static void judge(double figure[KINDS], const ts_ranked *a, int64_t n,
                  const uint8_t *copies) {
  ts_metric_sums sums = {0};
  double area = 0, below = 0;
  for (int64_t i = 0; i < n;) {
    const float p = a[i].p;
    double pos = 0, neg = 0;
    do {
      const double w =
          (double)a[i].w * (copies ? (double)copies[a[i].sample] : 1);
      pos += w * (double)a[i].y;
      neg += w * (1 - (double)a[i].y);
      sums.loss += w * a[i].loss;
    } while (++i < n && a[i].p == p);
    area += pos * (below + 0.5 * neg);
    below += neg;
    sums.positive += pos;
  }
  const bool both = sums.positive > 0 && below > 0;
  sums.weight = sums.positive + below;
  figure[0] = both ? area / (sums.positive * below) : 0.5;
  figure[1] = sums.weight > 0 ? sums.loss / sums.weight : 0;
  figure[2] = ts_metric_ne(&sums);
}

static void replicate(ts_resampling *s, int32_t r, uint8_t *copies) {
  double a[KINDS], b[KINDS];
  draw(copies, s, r);
  judge(a, s->ranked[0], s->n, copies);
  judge(b, s->ranked[1], s->n, copies);
  for (int k = 0; k < KINDS; k++) s->apart[r][k] = b[k] - a[k];
}

/* ---- all of them --------------------------------------------------------- */

static ts_err rank_samples(ts_ranked **out, const ts_paired_samples *s,
                           const float *prediction) {
  uint64_t *order;
  TS_DO(ts_mem_array(out, s->n, sizeof **out, TS_TAG_METRICS));
  TS_DO(ts_auc_order(&order, prediction, s->n));
  for (int64_t k = 0; k < s->n; k++) {
    const uint32_t i = (uint32_t)order[k];
    const bool counts = !isnan(s->label[i]);
    const float p = prediction[i], y = counts ? s->label[i] : 0;
    ts_metric_sums one = {0};
    ts_metric_sums_add(&one, (ts_metric_sample){p, y, 1});
    (*out)[k] = (ts_ranked){one.loss, p, y, counts ? s->weight[i] : 0, i};
  }
  ts_mem_free(order);
  return TS_OK;
}

static ts_err prepare(ts_resampling *s, const ts_paired_samples *samples) {
  if (s->n > UINT32_MAX)
    return ts_fail(TS_ERR_DATA, "%lld samples are more than can be resampled",
                   (long long)s->n);
  for (int m = 0; m < 2; m++)
    TS_DO(rank_samples(&s->ranked[m], samples, samples->prediction[m]));
  TS_DO(ts_mem_many(s->copies, s->n * s->o->n_threads, METRICS));
  TS_DO(ts_mem_many(s->apart, s->o->n_resamples, METRICS));
  find_copies(s->at);
  return TS_OK;
}

/* This rank's: in rounds of one for each thread of each rank. */
static void resample(ts_resampling *s, ts_comm *comm) {
  const int w = ts_comm_size(comm), me = ts_comm_rank(comm);
  const int32_t n = s->o->n_resamples;
  const int t = s->o->n_threads;
  ts_work work = ts_work_begin("resampling", s->o->name, n, "resamples");
  for (int64_t first = 0; first < n; first += (int64_t)w * t) {
#pragma omp parallel for num_threads(t) schedule(static, 1)
    for (int k = 0; k < t; k++) {
      const int64_t r = first + (int64_t)k * w + me;
      if (r < n) replicate(s, (int32_t)r, s->copies + k * s->n);
    }
    ts_work_at(&work, (double)(first + (int64_t)w * t));
  }
}

static int by_value(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* X is sorted; between two of them in proportion. */
static double quantile(const double *x, int32_t n, double share) {
  const double at = share * (n - 1);
  const int32_t i = (int32_t)at, next = i + 1 < n ? i + 1 : i;
  return x[i] + (at - i) * (x[next] - x[i]);
}

static ts_err settle(ts_paired to[KINDS], const ts_resampling *s) {
  const int32_t n = s->o->n_resamples;
  double figure[2][KINDS], *sorted;
  TS_DO(ts_mem_many(sorted, n, METRICS));
  for (int m = 0; m < 2; m++) judge(figure[m], s->ranked[m], s->n, NULL);
  for (int k = 0; k < KINDS; k++) {
    for (int32_t r = 0; r < n; r++) sorted[r] = s->apart[r][k];
    qsort(sorted, (size_t)n, sizeof *sorted, by_value);
    to[k] = (ts_paired){{figure[0][k], figure[1][k]},
                        quantile(sorted, n, 0.025),
                        quantile(sorted, n, 0.975)};
  }
  ts_mem_free(sorted);
  return TS_OK;
}

ts_err ts_metrics_bootstrap(ts_paired to[KINDS],
                            const ts_paired_samples *samples,
                            const ts_bootstrap *o, ts_comm *comm) {
  ts_err err = TS_OK;
  ts_resampling s = {.o = o, .n = samples->n};
  /* What a rank waits for the others has no deadline: it grows with the data.
   */
  const ts_section before = ts_watch_enter(TS_SECTION_NONE);
  TS_TRY(ts_agree(comm, prepare(&s, samples)));
  resample(&s, comm);
  TS_TRY(ts_comm_sum_f64(comm, s.apart[0], (int64_t)o->n_resamples * KINDS));
  TS_TRY(ts_agree(comm, settle(to, &s)));
done:
  ts_watch_enter(before);
  ts_mem_free_all(s.ranked[0], s.ranked[1], s.copies, s.apart);
  return err;
}

int ts_paired_better(const ts_paired *p, int kind) {
  const int sign =
      ts_metric_is_cost(ts_metric_find(ts_paired_names[kind])) ? -1 : 1;
  if (p->low > 0) return sign;
  return p->high < 0 ? -sign : 0;
}
