/* state_dense.h - parts of a checkpoint: dense parameters, averages; private to
 * state*.c, run_eval.c.
 * All of it is Local. */
#pragma once

#include "train/trainer.h"

/* Lists weights and averages, WITH_STATE optimizer state, too.  Where nothing
 * is trained averages are read into the weights, after these. */
ts_err ts_state_dense(ts_trainer *, ts_ckpt *, bool with_state);
/* Rows' running means (tables.ema) count on as if the passes of their last
 * updates were BY later, as where rows of an earlier step are taken back;
 * MEANS_BEGIN: they begin as their rows.  The lanes are idle. */
#define TS_MEANS_BEGIN INT64_MIN
ts_err ts_state_move_means(ts_trainer *, int64_t by);
/* What of the averages the checkpoint PATH, just loaded, lacks, as one from
 * before optimizer.ema does: they begin here, or are the weights; a note says
 * so.  Enqueues. */
ts_err ts_state_look_averages(ts_trainer *, const ts_ckpt *, const char *path);
/* The step that the checkpoint just loaded is of. */
int64_t ts_state_step(const ts_ckpt *);
