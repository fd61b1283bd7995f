/* auc.h - area under the ROC curve of one array of samples.
 * All of it is Local. */
#pragma once

#include <stdint.h>

#include "base/err.h"

/* Exact, ties merged; 0.5 where one class is missing.  The arrays stay as they
 * are. */
ts_err ts_auc(double *auc, const float *prediction, const float *label,
              int64_t n);
/* *ORDER (n), to be freed: the samples by their PREDICTION, the least first,
 * those of the same one as they come; a sample's number is the low 32 bits.
 * N < 2^32. */
ts_err ts_auc_order(uint64_t **order, const float *prediction, int64_t n);
