/* trace_file.h - one trace file for all ranks of a run.
 *
 * Each rank writes PATH.RANK.part while the run goes on; at the end rank 0
 * puts them into PATH, in Chrome's JSON object format with one event a line:
 * pid = rank, tid = row.  Times of all ranks are on rank 0's clock. */
#pragma once

#include "runtime/comm.h"
#include "runtime/trace.h"

typedef struct ts_trace_file {
  char *path; /* NULL: there is no trace; owned */
  char *part; /* this rank's; owned */
} ts_trace_file;

/* Compares clocks and opens.  Records while batches FIRST <= b < END are
 * trained.  Collective; errors are agreed. */
ts_err ts_trace_file_open(ts_trace_file *, const char *path, int64_t first,
                          int64_t end, ts_comm *);
/* Closes, merges into PATH and removes the parts; *N_EVENTS (may be NULL) of
 * all ranks.  Collective; errors are agreed.  No-op where none is open. */
ts_err ts_trace_file_close(ts_trace_file *, int64_t *n_events, ts_comm *);
/* Closes and removes this rank's part: after an error.  Local. */
void ts_trace_file_reset(ts_trace_file *);
