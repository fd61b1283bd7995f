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

/* Samples of all ranks that AUC in training looks back. */
enum { TS_AUC_SAMPLES = 1 << 18 };

/* WINDOW: global samples that the window looks back: the newest steps that have
 * so many, as sums; of samples each rank keeps its share, the newest, for AUC
 * and no more than TS_AUC_SAMPLES of all ranks.  0: no window and no AUC; -1:
 * keeps everything (evaluation).  Local. */
ts_err ts_metrics_create(ts_metrics **, int64_t window, int n_ranks);
void ts_metrics_destroy(ts_metrics *);
/* What a metric takes besides samples. */
double ts_metrics_sums_bytes(void);
/* Samples as of dense/tally.h, on the host: prediction to classes are set. */
ts_err ts_metrics_add(ts_metrics *, const struct ts_tally_args *);

/* Behind the samples of a step, on every rank, also one that had none. */
void ts_metrics_step(ts_metrics *);
/* There is no room for another step: all ranks' metrics are, and gather comes
 * next, or steps are taken together. */
bool ts_metrics_is_full(const ts_metrics *);
/* Over all ranks, the steps since the last time.  Compute and save begin with
 * it.  Collective. */
ts_err ts_metrics_gather(ts_metrics *, ts_comm *);

/* On a device whose memory is discrete the newest steps and samples lie there:
 * added to by tally, brought here by gather, compute and save, which wait for
 * LANE.  The arguments
 * must outlive the metric; not for WINDOW -1. */
ts_err ts_metrics_place(ts_metrics *, const ts_kernels *, ts_lane *,
                        ts_staging *);
/* The same as add, for a placed metric: enqueues.  Arrays are the device's;
 * LOSS, NAN as in dense/tally.h. */
ts_err ts_metrics_tally(ts_metrics *, const struct ts_tally_args *);

/* Kinds of figures (base/kinds.h), and the bins of predictions, of equal width,
 * that show how far these are from what happens. */
enum { TS_METRIC_KINDS = 18, TS_METRIC_BINS = 10 };

/* Of samples within groups (train/metrics_groups.h); 0 where there are none. */
typedef struct ts_group_figures {
  double gauc, ndcg, hit_rate, mrr, recall;
} ts_group_figures;

typedef struct ts_metrics_result {
  double n_samples, weight;
  double logloss, ne, calibration, accuracy; /* lifetime */
  double window_logloss, window_ne, window_calibration;
  double auc;    /* of the samples that are kept; 0.5 where undefined */
  double pr_auc; /* of the same: average precision, 0 where undefined */
  ts_group_figures groups; /* by ts_groups_compute, before judge */
  /* By judge alone: */
  double value[TS_METRIC_KINDS];
  double bins[TS_METRIC_BINS][3]; /* weight, its predictions, its labels */
} ts_metrics_result;

/* Over all ranks.  AUC: exact, ties merged, weighted; by a distributed sort
 * (samples exchanged by range of prediction).  Collective. */
ts_err ts_metrics_compute(ts_metrics *, ts_metrics_result *, ts_comm *);
/* After compute, of one that keeps everything: all kinds of figures; a
 * prediction from THRESHOLD on is a yes.  NAN: of a task of classes, of which
 * log loss and accuracy mean something.  Collective. */
ts_err ts_metrics_judge(ts_metrics *, ts_metrics_result *, double threshold,
                        ts_comm *);
/* Predictions that are near each other beside what happened. */
typedef struct ts_metric_bin {
  double n, weight;           /* samples; those of weight 0 are left out */
  double predicted, observed; /* weighted sums of predictions and labels */
  double least, greatest;     /* predictions */
} ts_metric_bin;
/* After compute, of one that keeps everything: BINS of about as many samples
 * each, the least predictions first.  Of n samples the k-th in order, from 0,
 * is in bin k n_bins / n, and so are all of the same prediction, which is
 * the first one's.  The same on all ranks.  Collective. */
ts_err ts_metrics_calibrate(const ts_metrics *, ts_metric_bin *bins,
                            int32_t n_bins, ts_comm *);
/* The kind of a word of metrics.report, and that word; what the log calls it.
 */
int ts_metric_find(const char *name);
const char *ts_metric_word(int kind);
const char *ts_metric_text(int kind, int *digits);
/* It is of predictions that are no probabilities, too. */
bool ts_metric_is_of_numbers(int kind);
/* And of classes. */
bool ts_metric_is_of_classes(int kind);
/* It says where what was wanted stands among what was not: hit_rate, ndcg, mrr,
 * recall_at_k. */
bool ts_metric_is_of_ranks(int kind);
/* Less of it is better. */
bool ts_metric_is_cost(int kind);

/* Adds /metrics to a checkpoint (sums of all ranks; samples as rows over ranks)
 * and takes it back on any number of ranks: on the same number each has its own
 * samples again, and all figures go on with the same bits.  PREFIX
 * "metrics/TASK".  For a load: describe before it (rows are not known then),
 * apply after.  Collective. */
ts_err ts_metrics_save(ts_metrics *, ts_ckpt *, const char *prefix, ts_comm *);
ts_err ts_metrics_load(ts_metrics *, const ts_ckpt *, const char *path,
                       const char *prefix, ts_comm *);
