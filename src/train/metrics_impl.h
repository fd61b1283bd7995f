/* metrics_impl.h - inside a metric; private to metrics*.c.
 * Functions are Local unless they say Collective or Enqueues. */
#pragma once

#include "dense/tally.h"
#include "train/metrics.h"

struct ts_metrics {
  bool keep_all;
  int64_t limit; /* samples of the window on this rank, 0: none */
  /* A copy as of the last fetch, where sums are on a device. */
  ts_metric_sums sums;
  ts_metric_place place;
  ts_metric_sample *ring; /* (capacity) */
  int64_t capacity;
  struct ts_metrics_device *on_device; /* where it is placed; NULL: here */
};

/* Room for N samples in the ring, as far as the limit allows. */
ts_err ts_metrics_reserve(ts_metrics *, int64_t n);

/* metrics_device.c: a placed metric's sums and window come here, and go back;
 * the host waits.  Of others nothing. */
ts_err ts_metrics_fetch(ts_metrics *);
ts_err ts_metrics_put(ts_metrics *);
void ts_metrics_leave(ts_metrics *);

/* metrics_auc.c: of the newest SAMPLES (-1: all) that the window keeps, over
 * all ranks.  Collective. */
ts_err ts_metrics_auc(const ts_metrics *, int64_t samples, double *auc,
                      ts_comm *);
