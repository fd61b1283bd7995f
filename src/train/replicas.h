/* replicas.h - weights that several ranks hold are the same: run.check.
 * Functions are Local unless they say Collective or Enqueues. */
#pragma once

#include "train/trainer.h"

/* Dense parameters, layers' running statistics and tables that several ranks
 * hold, with their optimizers' state, compared by 64 bits of each; the lanes
 * are brought to rest.  WHAT differs, and on which ranks: those that differ
 * from most, or all, where most are not alike; the same text on all ranks.  It
 * stays as it is where nothing does.  Collective. */
ts_err ts_replicas_compare(ts_trainer *, ts_str *what);

/* Adds "rank 3", or "ranks 0, 3": those of N that are MARKED. */
ts_err ts_ranks_append(ts_str *, const int64_t *marked, int n);

/* A fault on purpose: a bit of this rank's first row of a data_parallel table,
 * or where there is none of its first dense weight.  The lanes are brought to
 * rest. */
ts_err ts_replicas_flip(ts_trainer *);
