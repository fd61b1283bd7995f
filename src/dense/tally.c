/* tally.c - the host's kernel tally: sample by sample. */
#include "dense/tally.h"

#include <math.h>

static void add(ts_metric_sums *s, ts_metric_sample x, bool classes) {
  const double p = x.p, y = x.y, w = x.w;
  const double low = 1e-12;
  const double q = p < low ? low : p > 1 - low ? 1 - low : p;
  s->n += 1;
  s->weight += w;
  s->positive += w * y;
  s->predicted += w * p;
  s->loss -= w * (classes ? log(q) : y * log(q) + (1 - y) * log1p(-q));
  s->correct += w * (classes ? y : (p >= 0.5) == (y >= 0.5));
}

void ts_metric_sums_add(ts_metric_sums *s, ts_metric_sample x) {
  add(s, x, false);
}

void ts_metric_push(ts_metric_sample *ring, ts_metric_place *at, int64_t limit,
                    ts_metric_sample x) {
  if (at->n < limit) {
    ring[at->n++] = x;
    return;
  }
  ring[at->next] = x; /* the oldest gives way */
  at->next = at->next + 1 < limit ? at->next + 1 : 0;
}

ts_err ts_tally_host(const ts_tally_args *a) {
  if (a->loss && !isfinite(*a->loss)) {
    *a->nan = 1;
    return TS_OK;
  }
  for (int64_t i = 0; i < a->n; i++) {
    const float weight = a->weight ? a->weight[i] : 1.0f;
    const float label = a->label[i * a->stride];
    if (weight == 0 || !ts_tally_counts(a, label)) continue; /* skipped */
    const ts_metric_sample x = ts_tally_of(a, i, weight);
    add(a->sums, x, a->classes > 0);
    if (a->limit) ts_metric_push(a->ring, a->place, a->limit, x);
  }
  return TS_OK;
}
