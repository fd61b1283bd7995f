/* planner_stats.c - what is known of a feature's ids: from a law, or counted.
 */
#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "shard/planner.h"

double ts_plan_stats_distinct(const ts_plan_stats *s, double n, double rows) {
  if (n <= 0 || s->n_sample <= 0) return 0;
  const double d = s->distinct * pow(n / s->n_sample, s->growth);
  return fmin(fmin(d, n), rows);
}

/* Sum over ranks 1 .. rows of F(probability), on a grid that is fine where
 * the probabilities are large. */
static double over_ranks(double rows, double zipf, double total, double n,
                         double (*f)(double p, double n)) {
  double sum = 0;
  for (double r = 1; r <= rows;) {
    const double step = fmax(1, floor(r * 0.02));
    const double width = fmin(step, rows - r + 1);
    const double mid = r + (width - 1) / 2;
    sum += width * f(pow(mid, -zipf) / total, n);
    r += step;
  }
  return sum;
}

static double itself(double p, double n) {
  (void)n;
  return p;
}
static double appears(double p, double n) {
  return -expm1(-n * p);
}

ts_plan_stats ts_plan_stats_law(int64_t rows, double zipf, double pooling) {
  const double n_rows = (double)rows, n = 65536;
  const double total = over_ranks(n_rows, zipf, 1, 0, itself);
  ts_plan_stats s = {.pooling = pooling, .n_sample = n, .by_law = true};
  s.distinct = over_ranks(n_rows, zipf, total, n, appears);
  const double half = over_ranks(n_rows, zipf, total, n / 2, appears);
  s.growth = fmax(0, log2(s.distinct / half));
  const double top = fmax(1, floor(n_rows / 100));
  s.hot = over_ranks(top, zipf, total, 0, itself);
  for (int b = 0; b < TS_STATS_BLOCKS; b++) s.block[b] = 1.0 / TS_STATS_BLOCKS;
  return s;
}

static int by_id(const void *a, const void *b) {
  const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}
static int downwards(const void *a, const void *b) {
  return -by_id(a, b);
}

/* Sorts IDS and leaves the numbers of equal ones in COUNT; returns how many
 * different ones there are. */
static int64_t count_runs(int64_t *ids, int64_t n, int64_t *count) {
  int64_t d = 0;
  if (n) qsort(ids, (size_t)n, sizeof *ids, by_id);
  for (int64_t i = 0; i < n; i++) {
    if (i == 0 || ids[i] != ids[i - 1]) count[d++] = 0;
    count[d - 1]++;
  }
  return d;
}

ts_err ts_plan_stats_count(ts_plan_stats *s, int64_t rows, const int64_t *ids,
                           int64_t n, int64_t n_bags) {
  ts_err err = TS_OK;
  int64_t *copy = NULL, *count = NULL;
  if (n == 0) {
    *s = ts_plan_stats_law(rows, 0, 0);
    return TS_OK;
  }
  *s = (ts_plan_stats){.pooling = (double)n / (double)n_bags,
                       .n_sample = (double)n};
  TS_TRY(ts_mem_many(copy, n, MISC));
  TS_TRY(ts_mem_many(count, n, MISC));
  for (int64_t i = 0; i < n; i++) copy[i] = ids[i];
  const double half = (double)count_runs(copy, n / 2, count);
  for (int64_t i = 0; i < n; i++) copy[i] = ids[i];
  const int64_t d = count_runs(copy, n, count);
  s->distinct = (double)d;
  s->growth = half > 0 ? fmin(1, fmax(0, log2((double)d / half))) : 1;
  qsort(count, (size_t)d, sizeof *count, downwards);
  const int64_t top = rows / 100 > 1 ? rows / 100 : 1;
  for (int64_t i = 0; i < d && i < top; i++) s->hot += (double)count[i];
  s->hot /= (double)n;
  for (int64_t i = 0; i < n; i++)
    s->block[(int)((double)ids[i] / (double)rows * TS_STATS_BLOCKS)] +=
        1.0 / (double)n;
done:
  ts_mem_free(copy);
  ts_mem_free(count);
  return err;
}
