/* metrics_log.h - metrics.jsonl: one JSON object a line.
 * All of it is Local. */
#ifndef TS_IO_METRICS_LOG_H
#define TS_IO_METRICS_LOG_H

#include <stdint.h>

#include "base/err.h"

typedef struct ts_metrics_log ts_metrics_log;

/* Appends to PATH after dropping lines of steps after STEP (a resumed run
 * repeats none); STEP 0 starts anew.  Rank 0 alone. */
ts_err ts_metrics_log_open(ts_metrics_log **, const char *path, int64_t step);
/* Evaluations of STEP among the lines that were kept, 0 without a log. */
int64_t ts_metrics_log_evaluations(const ts_metrics_log *);
/* {"step":STEP, then numbers "name":value in FORMAT order}. */
/* With "EVENT":true: of something that is no step. */
ts_err ts_metrics_log_event(ts_metrics_log *, int64_t step, const char *event,
                            int n, const char *const *names,
                            const double *values);
/* The same of one table: with "table":TABLE. */
ts_err ts_metrics_log_table(ts_metrics_log *, int64_t step, const char *table,
                            int n, const char *const *names,
                            const double *values);
ts_err ts_metrics_log_line(ts_metrics_log *, int64_t step, int eval,
                           const char *task, int n, const char *const *names,
                           const double *values);
void ts_metrics_log_close(ts_metrics_log *);

#endif
