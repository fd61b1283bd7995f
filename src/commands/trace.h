/* trace.h - a trace file read back, for `tessera trace` and its checker.
 * All of it is Local. */
#pragma once

#include "runtime/trace.h"

typedef struct ts_read_lane {
  int32_t rank, row;
  const char *name;
} ts_read_lane;

typedef struct ts_read_span {
  int32_t lane; /* index of ts_trace.lanes */
  ts_span_kind kind;
  const char *name, *phase, *op; /* op: "" where it is no collective */
  int64_t batch, bytes;          /* batch -1: of none */
  double t0, t1;                 /* us */
} ts_read_span;

/* Strings are interned: equal names are equal pointers. */
typedef struct ts_trace {
  ts_read_span *spans; /* by start */
  ts_read_lane *lanes; /* by rank, then by row */
  char **strings;
  int32_t n_lanes, n_strings;
  int64_t n_spans;
  int n_ranks;
} ts_trace;

/* DATA where PATH is no trace of ours; says the line. */
ts_err ts_trace_read(ts_trace *, const char *path);
void ts_trace_reset(ts_trace *);

/* Where compute lanes of RANK compute, as intervals that don't touch. */
typedef struct ts_cover {
  double *t0, *t1; /* (n) */
  int64_t n;
} ts_cover;

/* From spans of kind compute for which WANTED (NULL: all). */
ts_err ts_cover_make(ts_cover *, const ts_trace *, int rank,
                     bool (*wanted)(const ts_trace *, const ts_read_span *,
                                    const void *arg),
                     const void *arg);
void ts_cover_reset(ts_cover *);
/* Time of [t0, t1) that COVER covers. */
double ts_cover_overlap(const ts_cover *, double t0, double t1);

ts_err ts_trace_summary(const ts_trace *);
/* Batches FIRST <= b < END (all where END is 0) of RANK (all: -1). */
ts_err ts_trace_plot(const ts_trace *, const char *path, int64_t first,
                     int64_t end, int rank);
