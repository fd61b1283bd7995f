/* run.h - a training run from its deck to its last checkpoint. */
#pragma once

#include <stdbool.h>

#include "base/config.h"
#include "base/err.h"
#include "train/run_trace.h"

typedef struct ts_run_options {
  bool check;   /* set everything up, print the plan, run nothing */
  bool import;  /* set everything up, save what weights there are, run nothing;
                   a run that has checkpoints is a USAGE error */
  double began; /* of ts_now: from where run.max_time counts */
  ts_trace_request trace;
} ts_run_options;

/* Trains (resumes, evaluates, saves) as CONFIG says.  STOPPED: ended early
 * with a checkpoint.  Collective; errors are agreed. */
ts_err ts_run_train(const ts_config *, const ts_run_options *);
