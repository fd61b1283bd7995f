/* calibration.h - an evaluation's predictions beside what happened: `tessera
 * eval --calibration`.
 * Functions are Local unless they say Collective. */
#pragma once

#include "train/trainer.h"

typedef struct ts_calibration {
  const ts_trainer *t;
  int32_t n_bins;      /* 0: nothing is asked for */
  ts_metric_bin *bins; /* (n_tasks, n_bins) */
} ts_calibration;

ts_err ts_calibration_create(ts_calibration *, const ts_trainer *,
                             int32_t n_bins);
void ts_calibration_destroy(ts_calibration *);
/* ts_eval_hooks.all.  Collective. */
ts_err ts_calibration_take(void *calibration, int32_t task, const ts_metrics *);
/* A table for each task. */
void ts_calibration_report(const ts_calibration *);
/* How far predictions are from what happens: the mean over TASK's samples of
 * their bins' differences. */
double ts_calibration_error(const ts_calibration *, int32_t task);
