/* metrics_bootstrap.h - two models' figures on the same samples, and how far
 * their difference may be chance: the paired bootstrap.
 *
 * In replicate r sample i counts as often as a Poisson number of mean 1 says,
 * which depends on (seed, r, i) alone and is the same for both models: figures
 * are those of one rank on any number of ranks and threads.  O(n) a replicate,
 * behind one sort a model.  Replicates are shared over ranks, all of which hold
 * all samples: 48 bytes a sample, 16 more while they are sorted, and one for
 * each thread.
 *
 * B. Efron, "Bootstrap methods: another look at the jackknife", Annals of
 * Statistics 7 (1979); N. Chamandy et al., "Estimating uncertainty for massive
 * data streams" (2012), for Poisson numbers. */
#pragma once

#include "runtime/comm.h"

enum { TS_PAIRED_KINDS = 3 };
/* "auc", "logloss", "ne", as ts_metric_find has them. */
extern const char *const ts_paired_names[TS_PAIRED_KINDS];

typedef struct ts_paired {
  double of[2];     /* the models' figures */
  double low, high; /* of of[1] - of[0]: 2.5 and 97.5 percent of replicates */
} ts_paired;

/* The same on all ranks. */
typedef struct ts_paired_samples {
  /* (n) each; a label NaN: the sample does not count. */
  const float *prediction[2], *label, *weight;
  int64_t n; /* < 2^32 */
} ts_paired_samples;

typedef struct ts_bootstrap {
  int32_t n_resamples; /* >= 1 */
  uint64_t seed;
  int n_threads;    /* of this rank */
  const char *name; /* for lines that say how far it is */
} ts_bootstrap;

/* 1: the second model is better, -1: the first one, by more than chance: the
 * interval of the KIND-th figure leaves out 0; 0: neither.  Local. */
int ts_paired_better(const ts_paired *, int kind);
/* TO has one of each kind.  A figure that a replicate has not (it lacks a
 * class) is what ts_metrics_compute says then.  Errors are agreed.
 * Collective. */
ts_err ts_metrics_bootstrap(ts_paired to[TS_PAIRED_KINDS],
                            const ts_paired_samples *, const ts_bootstrap *,
                            ts_comm *);
