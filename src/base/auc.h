/* auc.h - area under the ROC curve of one array of samples.
 * All of it is Local. */
#ifndef TS_BASE_AUC_H
#define TS_BASE_AUC_H

#include <stdint.h>

/* Exact, ties merged, weighted (WEIGHT NULL: 1); 0.5 where one class is
 * missing or memory is short.  The arrays stay as they are. */
double ts_auc(const float *prediction, const float *label, const float *weight,
              int64_t n);

#endif
