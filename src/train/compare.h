/* compare.h - two runs on the same samples: `tessera compare RUN RUN`. */
#pragma once

#include "base/config.h"
#include "train/metrics_bootstrap.h"

typedef struct ts_compared_run {
  const char *run;        /* as it was given */
  const char *checkpoint; /* the file that was taken */
  int64_t step;           /* its step */
} ts_compared_run;

typedef struct ts_comparison {
  ts_compared_run run[2];
  int64_t n_samples; /* those that count: of weight 0 none does */
  int32_t n_tasks;
  const char *const *tasks; /* (n_tasks) */
  ts_paired *figures;       /* (n_tasks, TS_PAIRED_KINDS) */
} ts_comparison;

typedef struct ts_compare {
  const char *run[2];      /* folders (run.output), or a checkpoint's file */
  const ts_strings *data;  /* instead of the first run's data.eval; n 0: none */
  const char *const *sets; /* into both decks, which are the checkpoints' */
  int n_sets;
  int32_t n_resamples;
  uint64_t seed;
  ts_err (*tell)(const ts_comparison *, const void *arg); /* on rank 0 */
  const void *arg;
} ts_compare;

/* Evaluates both, one after the other, each with its own deck, on the same
 * files.  A DATA error where samples, labels or weights differ.  Beside what
 * ts_metrics_bootstrap takes each rank holds 8 bytes a sample and 16 for each
 * task.  Collective. */
ts_err ts_run_compare(const ts_compare *);
