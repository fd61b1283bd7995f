/* tally.h - kernel tally: a batch's predictions into the sums and the window
 * of a metric.  All memory is the device's.  All of it is Local. */
#pragma once

#include <stdint.h>

#include "base/err.h"

/* Over samples with weight w, prediction p and label y; loss in nats, p
 * clamped to [1e-12, 1 - 1e-12] in it.  Only doubles: summed over ranks as an
 * array. */
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

/* Samples of weight 0 or label NaN count for nothing; the others go into the
 * sums and, the newest LIMIT of them, into the ring, in their order.  The host
 * adds one by one; devices in a fixed order of their own. */
typedef struct ts_tally_args {
  ts_metric_sums *sums;            /* (1) += */
  ts_metric_place *place;          /* (1) */
  ts_metric_sample *ring;          /* (limit) */
  int64_t limit;                   /* 0: no window */
  const float *prediction, *label; /* (n), STRIDE floats apart */
  const float *weight;             /* (n) or NULL: 1 */
  int64_t n;
  int32_t stride;
  /* Unless NULL: where *loss (1) is not finite nothing is added and *nan (1)
   * becomes 1. */
  const double *loss;
  int32_t *nan;
} ts_tally_args;

ts_err ts_tally_host(const ts_tally_args *);
void ts_metric_sums_add(ts_metric_sums *, ts_metric_sample);
void ts_metric_push(ts_metric_sample *ring, ts_metric_place *, int64_t limit,
                    ts_metric_sample);
