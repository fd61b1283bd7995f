/* metrics_log.h - metrics.jsonl: one JSON object a line.
 * All of it is Local. */
#pragma once

#include <stdint.h>

#include "base/err.h"

typedef struct ts_metrics_log ts_metrics_log;

/* Appends to PATH after dropping lines of steps after STEP (a resumed run
 * repeats none); STEP 0 starts anew.  Rank 0 alone. */
ts_err ts_metrics_log_open(ts_metrics_log **, const char *path, int64_t step);
/* Evaluations of STEP among the lines that were kept, 0 without a log. */
int64_t ts_metrics_log_evaluations(const ts_metrics_log *);
/* {"step":STEP, "EVENT":true, "task":TASK, "table":TABLE, then the numbers
 * that are finite, in this order}; what is NULL is left out. */
typedef struct ts_metrics_line {
  int64_t step;
  const char *event, *task, *table; /* event: "eval", "checkpoint" */
  int n;
  const char *const *names;
  const double *values; /* (n) */
} ts_metrics_line;
ts_err ts_metrics_log_line(ts_metrics_log *, const ts_metrics_line *);
void ts_metrics_log_close(ts_metrics_log *);
