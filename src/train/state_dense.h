/* state_dense.h - the dense parameters of a checkpoint; private to state*.c.
 * All of it is Local. */
#pragma once

#include "train/trainer.h"

/* Lists weights and averages, WITH_STATE optimizer state, too.  Where nothing
 * is trained averages are read into the weights, after these. */
ts_err ts_state_dense(ts_trainer *, ts_ckpt *, bool with_state);
/* What of the averages the checkpoint PATH, just loaded, lacks, as one from
 * before optimizer.ema does: they begin here, or are the weights; a note says
 * so.  Enqueues. */
ts_err ts_state_look_averages(ts_trainer *, const ts_ckpt *, const char *path);
