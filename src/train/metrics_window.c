/* metrics_window.c - the newest steps as sums, in bounded memory. */
#include <math.h>

#include "base/mem.h"
#include "train/metrics_impl.h"

ts_err ts_metric_window_create(ts_metric_window *w, int64_t samples) {
  if (samples == 0) return TS_OK;
  w->enough = samples < 0 ? INFINITY : (double)samples;
  w->least = ceil(w->enough / TS_WINDOW_PARTS);
  w->capacity = samples < 0 ? 1 : TS_WINDOW_PARTS + 1;
  return ts_mem_array(&w->part, w->capacity, sizeof *w->part, TS_TAG_METRICS);
}

static ts_metric_sums *part_of(const ts_metric_window *w, int64_t i) {
  return &w->part[(w->first + i) % w->capacity];
}

const ts_metric_sums *ts_metric_window_part(const ts_metric_window *w,
                                            int64_t i) {
  return part_of(w, i);
}

void ts_metric_sums_join(ts_metric_sums *sum, const ts_metric_sums *x) {
  double *a = (double *)sum;
  const double *b = (const double *)x;
  for (size_t k = 0; k < sizeof *sum / sizeof *a; k++) a[k] += b[k];
}

/* What goes is no longer needed for the newest W->enough samples; a file's
 * counts may be anything, and then there is room, too. */
static void forget(ts_metric_window *w) {
  w->samples -= part_of(w, 0)->n;
  w->first = (w->first + 1) % w->capacity;
  w->n--;
}

void ts_metric_window_push(ts_metric_window *w, const ts_metric_sums *x) {
  if (!w->capacity || x->n == 0) return;
  if (w->n && part_of(w, w->n - 1)->n < w->least) {
    ts_metric_sums_join(part_of(w, w->n - 1), x);
  } else {
    if (w->n == w->capacity) forget(w);
    *part_of(w, w->n++) = *x;
  }
  w->samples += x->n;
  while (w->n > 1 && w->samples - part_of(w, 0)->n >= w->enough) forget(w);
}
