/* metrics_impl.h - inside a metric; private to metrics*.c. */
#ifndef TS_TRAIN_METRICS_IMPL_H
#define TS_TRAIN_METRICS_IMPL_H

#include "train/metrics.h"

/* Only doubles: summed over ranks as an array. */
typedef struct ts_metric_sums {
  double n, weight, positive, predicted, loss, correct;
} ts_metric_sums;

typedef struct ts_metric_sample {
  float p, y, w;
} ts_metric_sample;

struct ts_metrics {
  bool keep_all;
  int64_t limit; /* samples of the window on this rank, 0: none */
  ts_metric_sums sums;
  ts_metric_sample *ring;    /* (capacity) */
  int64_t n, capacity, next; /* next: the oldest, once it is full */
};

void ts_metrics_push(ts_metrics *, ts_metric_sample);

/* metrics_auc.c: of the newest SAMPLES (-1: all) that the window keeps, over
 * all ranks.  Collective. */
ts_err ts_metrics_auc(const ts_metrics *, int64_t samples, double *auc,
                      ts_comm *);

#endif
