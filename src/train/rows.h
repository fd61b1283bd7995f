/* rows.h - rows of tables with rows = "auto": a checkpoint's where there is
 * one, else those that the data need.  Where no table has it nothing is done.
 * All of it is Collective. */
#pragma once

#include "train/trainer.h"

/* Those of the newest checkpoint that training would go on from, then those of
 * checkpoint.init_from. */
ts_err ts_trainer_rows_kept(ts_trainer *);

/* The same, then the data's, for which the training data are opened: *TRAIN is
 * that source (NULL: closed again), unset where it was not needed. */
ts_err ts_trainer_rows(ts_trainer *, ts_source **train);

/* Those of the checkpoint PATH (NULL: the newest) alone; tables that it doesn't
 * have stay as they are. */
ts_err ts_trainer_rows_of(ts_trainer *, const char *path);
