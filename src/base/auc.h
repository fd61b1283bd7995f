/* auc.h - area under the ROC curve of one array of samples.
 * All of it is Local. */
#ifndef TS_BASE_AUC_H
#define TS_BASE_AUC_H

#include <stdint.h>

#include "base/err.h"

/* Exact, ties merged; 0.5 where one class is missing.  The arrays stay as they
 * are. */
ts_err ts_auc(double *auc, const float *prediction, const float *label,
              int64_t n);

#endif
