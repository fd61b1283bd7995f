/* predictions.h - the file of `tessera predict`: /predictions and /labels, in
 * the order of the samples, each rank writing its own by pwrite. */
#pragma once

#include "runtime/comm.h"

typedef struct ts_predictions ts_predictions;

/* N samples, T tasks ((N) where T is 1).  Under a temporary name until
 * finish.  Collective. */
ts_err ts_predictions_create(ts_predictions **, const char *path, int64_t n,
                             int32_t n_tasks, ts_comm *);
/* Rows [first, first + n).  Local. */
ts_err ts_predictions_write(ts_predictions *, int64_t first, int64_t n,
                            const float *predictions, const float *labels);
/* OK: gives the file its name, unless any rank has an ERR.  Collective. */
ts_err ts_predictions_finish(ts_predictions *, ts_err err, ts_comm *);
