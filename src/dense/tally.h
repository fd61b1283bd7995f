/* tally.h - kernel tally: a batch's predictions into the sums and the window
 * of a metric.  All memory is the device's.  All of it is Local. */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "dense/loss_pair.h"

/* Over samples with weight w, prediction p and label y; loss in nats, p
 * clamped to [1e-12, 1 - 1e-12] in it.  Only doubles: summed over ranks as an
 * array.  Of a task of classes p is the probability of the label's class, y 1
 * where that is the one that is told (ts_loss_told), else 0, the loss -log p,
 * and correct the weight of the samples with y 1. */
typedef struct ts_metric_sums {
  double n, weight, positive, predicted, loss, correct;
} ts_metric_sums;

typedef struct ts_metric_sample {
  float p, y, w;
} ts_metric_sample;

/* The window: N samples; NEXT is the oldest's place once it is full, else 0. */
typedef struct ts_metric_place {
  int64_t n, next;
} ts_metric_place;

/* Samples of weight 0 or label NaN, or none of the classes, count for nothing;
 * the others go into the sums and, the newest LIMIT of them, into the ring, in
 * their order.  The host adds one by one; devices in a fixed order of their
 * own. */
typedef struct ts_tally_args {
  ts_metric_sums *sums;    /* (1) += */
  ts_metric_place *place;  /* (1) */
  ts_metric_sample *ring;  /* (limit) */
  int64_t limit;           /* 0: no window */
  const float *prediction; /* (n), ROW floats apart; (n, CLASSES) */
  const float *label;      /* (n), STRIDE floats apart */
  const float *weight;     /* (n) or NULL: 1 */
  int64_t n;
  int32_t row, stride;
  int32_t classes; /* of a task of such; else 0 */
  /* Unless NULL: where *loss (1) is not finite nothing is added and *nan (1)
   * becomes 1. */
  const double *loss;
  int32_t *nan;
} ts_tally_args;

TS_LOSS_INLINE bool ts_tally_counts(const ts_tally_args *a, float label) {
  return a->classes ? ts_loss_is_class(label, a->classes) : !isnan(label);
}

/* Sample I, which counts. */
TS_LOSS_INLINE ts_metric_sample ts_tally_of(const ts_tally_args *a, int64_t i,
                                            float weight) {
  const float *p = a->prediction + i * a->row;
  const float y = a->label[i * a->stride];
  ts_metric_sample x = {*p, y, weight};
  if (!a->classes || !ts_loss_is_class(y, a->classes)) return x;
  x.p = p[(int32_t)y];
  x.y = ts_loss_told(p, a->classes) == (int32_t)y;
  return x;
}

ts_err ts_tally_host(const ts_tally_args *);
void ts_metric_sums_add(ts_metric_sums *, ts_metric_sample);
void ts_metric_push(ts_metric_sample *ring, ts_metric_place *, int64_t limit,
                    ts_metric_sample);
