/* replicas.h - weights that several ranks hold are the same: run.check.
 * Functions are Local unless they say Collective or Enqueues. */
#pragma once

#include "train/trainer.h"

/* Dense parameters, layers' running statistics and tables that several ranks
 * hold, with their optimizers' state, compared by 64 bits of each; the lanes
 * are brought to rest.  Where something differs WHAT gets a text, the same on
 * all ranks: the tensor, and the ranks that differ from most, or all of them
 * where no majority agrees.  Else it stays as it is.  Collective. */
ts_err ts_replicas_compare(ts_trainer *, ts_str *what);

/* Adds "rank 3", or "ranks 0, 3": those of N that are MARKED. */
ts_err ts_ranks_append(ts_str *, const int64_t *marked, int n);

/* A fault on purpose: a bit of this rank's first row of a data_parallel table,
 * or where there is none of its first dense weight.  The lanes are brought to
 * rest. */
ts_err ts_replicas_flip(ts_trainer *);
