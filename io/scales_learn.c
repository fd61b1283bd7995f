/* scales_learn.c - means, limits and quantiles of the samples that are trained
 * on, the same bits on any number of ranks. */
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "io/scales_impl.h"
#include "io/subset.h"

/* Samples are in parts, each read by one rank: at least so many, and no more
 * parts than there is room for. */
enum { PART = 65536, PARTS = 1024 };

static void add_moments(ts_moments *to, const ts_moments *x) {
  const double n = to->n + x->n, apart = x->mean - to->mean;
  if (x->n == 0) return;
  to->squares += x->squares + apart * apart * to->n * x->n / n;
  to->mean += apart * x->n / n;
  to->n = n;
}

bool ts_scales_learn_some(const ts_scales *s) {
  bool any = s && s->standardise;
  for (int32_t i = 0; i < ts_scales_count(s); i++)
    any |= ts_scale_has_edges(&s->of[i]);
  return any;
}

ts_err ts_scales_begin(ts_scales *s, int64_t n, const uint64_t *kept,
                       ts_comm *comm, int64_t *first, int64_t *end) {
  const int w = ts_comm_size(comm), me = ts_comm_rank(comm);
  *first = n * me / w;
  *end = n * (me + 1) / w;
  if (!s) return TS_OK;
  s->kept = kept;
  for (int32_t i = 0; i < s->n; i++)
    s->of[i].low = INFINITY, s->of[i].high = -INFINITY;
  if (!s->standardise) return TS_OK;
  s->per_part = n / PARTS + 1 > PART ? n / PARTS + 1 : PART;
  s->n_parts = (n + s->per_part - 1) / s->per_part;
  *first = (s->n_parts * me + w - 1) / w * s->per_part;
  *end = (s->n_parts * (me + 1) + w - 1) / w * s->per_part;
  if (*end > n) *end = n;
  if (*first > n) *first = n;
  return ts_mem_many(s->parts, s->n_parts * s->n_dense, INPUT);
}

ts_err ts_scales_learn(ts_scales *s, int32_t i, int64_t sample, double x) {
  ts_scale *of = &s->of[i];
  if (isnan(x) || (s->kept && !ts_bits_has(s->kept, sample))) return TS_OK;
  if (of->log) x = log1p(fmax(x, 0));
  of->low = fmin(of->low, x);
  of->high = fmax(of->high, x);
  if (s->standardise && i < s->n_dense)
    add_moments(&s->parts[sample / s->per_part * s->n_dense + i],
                &(ts_moments){1, x, 0});
  return ts_scale_has_sample(of) ? ts_scale_sample_add(&of->sample, sample, x)
                                 : TS_OK;
}

/* ---- of all ranks -------------------------------------------------------- */

/* In the order of the parts; numbers that are all alike are left at 0. */
static ts_err settle_moments(ts_scales *s, ts_comm *comm) {
  const int64_t each = (int64_t)(sizeof *s->parts / sizeof(int64_t));
  /* A part is one rank's, and zeros of the others: the sum of the bits. */
  TS_DO(ts_comm_sum_i64(comm, (int64_t *)s->parts,
                        s->n_parts * s->n_dense * each));
  for (int32_t d = 0; d < s->n_dense; d++) {
    ts_moments sum = {0};
    for (int64_t p = 0; p < s->n_parts; p++)
      add_moments(&sum, &s->parts[p * s->n_dense + d]);
    const double variance = sum.squares / fmax(sum.n, 1);
    s->of[d].mean = sum.mean;
    s->of[d].deviation = variance > 1e-12 ? sqrt(variance) : 1;
  }
  return TS_OK;
}

/* The quantiles of N sorted numbers X that S takes; those that bins lie between
 * differ. */
static ts_err take_quantiles(ts_scale *s, const double *x, int64_t n) {
  ts_err err = TS_OK;
  double *edges = NULL;
  const bool all = s->kind == TS_SCALE_QUANTILE;
  const int64_t points = s->bins < n ? s->bins : n;
  /* quantile: 0 to points - 1; bins: 0 to bins, buckets without both ends */
  const int64_t last = all ? points - 1 : s->bins;
  const int64_t from = s->kind == TS_SCALE_BUCKETS, to = last - from;
  int64_t k = 0;
  TS_TRY(ts_mem_many(edges, last + 1, INPUT));
  for (int64_t i = from; n && i <= to; i++) {
    const double q =
        ts_scale_quantile(x, n, last > 0 ? (double)i / (double)last : 0);
    if (all || !k || q > edges[k - 1]) edges[k++] = q;
  }
  TS_TRY(ts_scale_set(s, edges, k));
done:
  ts_mem_free(edges);
  return err;
}

static ts_err settle_edges(ts_scale *s, ts_comm *comm) {
  ts_err err = TS_OK;
  double *x = NULL;
  int64_t n;
  if (s->kind == TS_SCALE_MIN_MAX)
    return ts_agree(comm, ts_scale_set(s, (double[]){s->low, s->high},
                                       s->low <= s->high ? 2 : 0));
  TS_TRY(ts_scale_sample_settle(&s->sample, &x, &n, comm));
  TS_TRY(ts_agree(comm, take_quantiles(s, x, n)));
done:
  ts_mem_free(x);
  return err;
}

static void note(const ts_scale *s) {
  const int32_t ends = s->kind == TS_SCALE_BUCKETS ? -1 : 1;
  if (s->low > s->high)
    ts_note("data.columns: \"%s\" has no number in data.train: it says nothing",
            s->name);
  else if (s->low == s->high)
    ts_note("data.columns: \"%s\" is always %.10g in data.train: it says "
            "nothing",
            s->name, s->low);
  else if (s->kind > TS_SCALE_CLIP && s->n_edges < s->bins + ends)
    ts_note("data.columns: \"%s\" has %d bins, not %d: other quantiles in "
            "data.train are alike",
            s->name, s->n_edges - ends, s->bins);
}

ts_err ts_scales_settle(ts_scales *s, ts_comm *comm) {
  if (s->standardise) TS_DO(settle_moments(s, comm));
  ts_mem_free(s->parts);
  s->parts = NULL;
  s->kept = NULL;
  for (int32_t i = 0; i < s->n; i++) {
    ts_scale *x = &s->of[i];
    double limits[2] = {-x->low, x->high};
    if (!ts_scale_has_edges(x) && x->kind != TS_SCALE_STANDARDISE) continue;
    TS_DO(ts_comm_max_f64(comm, limits, 2));
    x->low = -limits[0];
    x->high = limits[1];
    if (ts_scale_has_edges(x)) TS_DO(settle_edges(x, comm));
    note(x);
  }
  return TS_OK;
}
