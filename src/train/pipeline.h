/* pipeline.h - the order in which the stages of a step run, and on which
 * lanes.  One file per pipeline (base.c, ...), registered in pipeline.c. */
#ifndef TS_TRAIN_PIPELINE_H
#define TS_TRAIN_PIPELINE_H

#include "train/trainer.h"

typedef struct ts_step_result {
  bool end;          /* the data has ended; nothing was trained */
  int stop;          /* a stop was asked for, by any rank */
  bool skipped;      /* on_nan = "skip": no update was made */
  bool nan;          /* this rank's loss is not a number */
  int64_t n_global;  /* samples */
  double weight_sum; /* over all ranks */
  double loss_sum;   /* this rank's */
} ts_step_result;

typedef struct ts_pipeline_ops {
  const char *name;
  /* Fills the pipeline; nothing to do where one batch is in flight. */
  ts_err (*prime)(ts_trainer *, ts_loader *);
  /* One optimizer step.  STOP: what this rank asks for.  Errors of the data
   * are agreed; others are this rank's own. */
  ts_err (*step)(ts_trainer *, ts_loader *, int stop, ts_step_result *);
  /* Lets go of what was begun ahead, without training on it. */
  ts_err (*drain)(ts_trainer *, ts_loader *);
} ts_pipeline_ops;

const ts_pipeline_ops *ts_pipeline_find(const char *name);

#endif
