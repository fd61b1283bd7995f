/* metrics_bins.c - predictions beside what happened, in bins of as many samples
 * each: of rare clicks, too, where bins of equal width are all but one empty.
 */
#include <math.h>

#include "base/mem.h"
#include "train/metrics_impl.h"

static void add(ts_metric_bin *b, const ts_metric_sample *x) {
  const double w = (double)x->w, p = (double)x->p;
  if (!(b->n > 0)) b->least = p;
  b->greatest = p;
  b->n++;
  b->weight += w;
  b->predicted += w * p;
  b->observed += w * (double)x->y;
}

/* Those of a range of N samples, with BEFORE in the ranges below, of ALL. */
static void fill(ts_metric_bin *bins, int32_t n_bins, const ts_metric_sample *a,
                 int64_t n, int64_t before, int64_t all) {
  for (int64_t i = 0, first = 0; i < n; i++) {
    if (a[i].p != a[first].p) first = i;
    add(&bins[(before + first) * n_bins / all], &a[i]);
  }
}

/* The parts of a bin come in the order of predictions. */
static void join(ts_metric_bin *to, const ts_metric_bin *part) {
  if (!(part->n > 0)) return;
  if (!(to->n > 0)) to->least = part->least;
  to->greatest = part->greatest;
  to->n += part->n;
  to->weight += part->weight;
  to->predicted += part->predicted;
  to->observed += part->observed;
}

ts_err ts_metrics_calibrate(const ts_metrics *m, ts_metric_bin *bins,
                            int32_t n_bins, ts_comm *comm) {
  ts_err err = TS_OK;
  const int w = ts_comm_size(comm), me = ts_comm_rank(comm);
  int64_t n, each[w], before = 0, all = 0;
  ts_buffer range;
  ts_metric_bin *part = NULL; /* (1 + w, n_bins) this rank's, and all */
  TS_TRY(ts_metrics_sort(m, &range, &n, comm));
  TS_TRY(ts_comm_gather_all(comm, each, &n, sizeof n));
  for (int r = 0; r < w; r++) all += each[r];
  for (int r = 0; r < me; r++) before += each[r];
  TS_TRY(ts_agree(comm, ts_mem_many(part, (1 + (int64_t)w) * n_bins, METRICS)));
  fill(part, n_bins, range.ptr, n, before, all);
  TS_TRY(ts_comm_gather_all(comm, part + n_bins, part,
                            n_bins * (int64_t)sizeof *part));
  for (int32_t b = 0; b < n_bins; b++) {
    bins[b] = (ts_metric_bin){0};
    for (int r = 1; r <= w; r++) join(&bins[b], &part[(int64_t)r * n_bins + b]);
  }
done:
  ts_buffer_reset(&range);
  ts_mem_free(part);
  return err;
}
