/* forward.h - evaluation and prediction with a checkpoint. */
#pragma once

#include "base/err.h"

/* Evaluates DECK's data.eval with CHECKPOINT (NULL: the newest of the run),
 * and where OUT is not NULL writes predictions there.  Collective. */
ts_err ts_run_forward(const char *deck, const char *const *sets, int n_sets,
                      const char *checkpoint, const char *out);
