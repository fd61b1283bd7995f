/* metrics_log.h - metrics.jsonl: one JSON object a line.
 *
 * A file that has grown to the size given becomes metrics.1.jsonl, the next
 * metrics.2.jsonl, and so on; without a size none does.  The log is these in
 * their order and then metrics.jsonl.  The lines of a step are in one file, so
 * the newest file has all of the last step's.
 * All of it is Local. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"

typedef struct ts_metrics_log ts_metrics_log;

/* Appends to PATH, called "metrics.jsonl", after dropping lines of steps after
 * STEP (a resumed run repeats none), and files that have no others; STEP 0
 * starts anew.  A file of N_BYTES or more is closed at the next step; 0: none
 * is.  It reads only the files that it drops, and one more.  Rank 0 alone. */
ts_err ts_metrics_log_open(ts_metrics_log **, const char *path, int64_t step,
                           int64_t n_bytes);
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

/* Reads the log whose newest file is PATH, also while it is written; where PATH
 * has another name, that file alone.  {.path = PATH} begins. */
typedef struct ts_metrics_reader {
  const char *path; /* borrowed */
  FILE *file;
  int64_t number; /* of the file, 0 before the first */
  bool last;      /* no file comes after it */
  char *text;     /* getline's */
  size_t room;
} ts_metrics_reader;

/* *LINE is the next one, NULL where it is no JSON; the caller's else.  *END is
 * true behind the last.  DATA where a file can't be read. */
ts_err ts_metrics_reader_next(ts_metrics_reader *, json_t **line, bool *end);
void ts_metrics_reader_reset(ts_metrics_reader *);
