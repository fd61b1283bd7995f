/* metrics.h - loss, NE, AUC, calibration, accuracy over samples.
 *
 * Sums in double.  Log loss in nats; NE = mean cross entropy / entropy of
 * the base rate (He et al., 2014), predictions clamped to [1e-12, 1-1e-12].
 * With sample weights every sum is weighted.
 * Functions are Local unless they say Collective or Enqueues. */
#pragma once

#include "io/checkpoint.h"
#include "runtime/comm.h"
#include "kernel_table.h"
#include "runtime/staging.h"

typedef struct ts_metrics ts_metrics; /* of one task */

/* WINDOW: global samples that the window holds (each rank keeps its share,
 * the newest); 0: no window and no AUC of it; -1: keeps everything
 * (evaluation).  Local. */
ts_err ts_metrics_create(ts_metrics **, int64_t window, int n_ranks);
void ts_metrics_destroy(ts_metrics *);
/* n samples; weights NULL: 1.  STRIDE: distance between samples' values in
 * prediction and label (tasks interleaved). */
ts_err ts_metrics_add(ts_metrics *, const float *prediction, const float *label,
                      const float *weight, int64_t n, int32_t stride);

/* On a device whose memory is discrete sums and window lie there: added to by
 * tally, brought here by compute and save, which wait for LANE.  The arguments
 * must outlive the metric; not for WINDOW -1. */
ts_err ts_metrics_place(ts_metrics *, const ts_kernels *, ts_lane *,
                        ts_staging *);
/* The same as add, for a placed metric: enqueues.  Arrays are the device's;
 * LOSS, NAN as in dense/tally.h. */
ts_err ts_metrics_tally(ts_metrics *, const struct ts_tally_args *);

typedef struct ts_metrics_result {
  double n_samples, weight;
  double logloss, ne, calibration, accuracy; /* lifetime */
  double window_logloss, window_ne, window_calibration;
  double auc; /* of the newest samples of the window; 0.5 where undefined */
} ts_metrics_result;

/* Over all ranks.  AUC: exact, ties merged, weighted; by a distributed sort
 * (samples exchanged by range of prediction), of the newest AUC_SAMPLES of
 * all ranks that the window keeps; -1: of all it keeps; 0: none, auc is 0.5.
 * Collective. */
ts_err ts_metrics_compute(ts_metrics *, ts_metrics_result *,
                          int64_t auc_samples, ts_comm *);

/* Adds /metrics to a checkpoint (lifetime sums; window as rows over ranks)
 * and takes it back on any number of ranks.  PREFIX "metrics/TASK".  For a
 * load: describe before it (window rows are not known then), apply after.
 * Collective. */
ts_err ts_metrics_save(ts_metrics *, ts_ckpt *, const char *prefix, ts_comm *);
ts_err ts_metrics_load(ts_metrics *, const ts_ckpt *, const char *path,
                       const char *prefix, ts_comm *);
