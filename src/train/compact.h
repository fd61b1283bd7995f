/* compact.h - deltas of a run as a full checkpoint. */
#pragma once

#include "base/err.h"

/* The newest delta of DECK's folder, or the file CHECKPOINT, with all that it
 * builds on (ts_ckpt_compact); one that is damaged is named, and the one before
 * it is taken.  Where the newest is a full checkpoint nothing is done.
 * Collective. */
ts_err ts_run_compact(const char *deck, const char *const *sets, int n_sets,
                      const char *checkpoint);
