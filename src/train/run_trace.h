/* run_trace.h - the trace of a run: which batches, where to, memory.
 * Functions are Local unless they say Collective or Enqueues. */
#pragma once

#include "base/config.h"
#include "runtime/trace_file.h"

/* The trace that the command line asks for. */
typedef struct ts_trace_request {
  const char *path;   /* NULL: as the deck's run.trace says */
  int64_t first, end; /* batches first <= b < end; end 0: the default */
} ts_trace_request;

/* With --trace the default is batches 10 to 19 from NEXT, the one that is
 * trained first, on; with run.trace all of the run.  Opens nothing where
 * neither is given.  Collective; errors are agreed. */
ts_err ts_run_trace_open(ts_trace_file *, const ts_config *,
                         const ts_trace_request *, int64_t next, ts_comm *);
/* Before each step: batch NEXT is trained in it. */
void ts_run_trace_step(int64_t next);
/* Writes the file and says so.  Collective; errors are agreed. */
ts_err ts_run_trace_close(ts_trace_file *, ts_comm *);
