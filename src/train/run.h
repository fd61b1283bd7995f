/* run.h - a training run from its deck to its last checkpoint. */
#ifndef TS_TRAIN_RUN_H
#define TS_TRAIN_RUN_H

#include <stdbool.h>

#include "base/config.h"
#include "base/err.h"

/* Trains (resumes, evaluates, saves) as CONFIG says.  CHECK: sets everything
 * up, prints the plan, runs nothing.  STOPPED: ended early with a checkpoint.
 * Collective; errors are agreed. */
ts_err ts_run_train(const ts_config *, bool check);

#endif
