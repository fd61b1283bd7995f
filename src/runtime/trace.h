/* trace.h - spans for the Chrome trace viewer, and phase timers.
 *
 * A span is a piece of work of one lane, with the number of the batch whose
 * data it works on.  The scheduler thread says which batch that is before it
 * enqueues (ts_trace_batch_set); lanes and comms keep the mark with what is
 * enqueued and write it with the span when that has run.
 *
 * Spans cost one branch when nothing is traced.  Thread-safe. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

double ts_now(void); /* seconds, monotonic */

/* The step and phase that the calling thread works for.  PHASE is static:
 * "input", "forward", "backward", "optimizer", "" where it is none of these. */
typedef struct ts_trace_mark {
  int64_t batch; /* number of the global batch, -1: of none */
  const char *phase;
  int64_t bytes; /* that a copy moves */
} ts_trace_mark;

void ts_trace_batch_set(int64_t batch, const char *phase);
void ts_trace_mark_put(ts_trace_mark);
ts_trace_mark ts_trace_mark_now(void);
/* While ON, the calling thread's work is of phase "evaluation", whatever
 * ts_trace_batch_set says. */
void ts_trace_evaluating(bool on);

/* The kind of work of a span. */
typedef enum {
  TS_SPAN_COMPUTE, /* work of a compute lane */
  TS_SPAN_DATA,    /* work on another lane or thread */
  TS_SPAN_COMM,    /* a collective under way */
  TS_SPAN_WAIT     /* waiting for another lane */
} ts_span_kind;

/* A row of the trace, for one lane, thread or comm; NAME must be static and
 * may be that of several rows.  -1 where there are too many: no spans.
 * Rows exist whether a trace is open or not. */
int ts_trace_row_take(const char *name);
void ts_trace_row_give(int row);

typedef struct ts_span {
  int row;
  ts_span_kind kind;
  const char *name; /* static */
  const char *op;   /* of a collective, static; else NULL */
  ts_trace_mark mark;
  int64_t bytes; /* sent to other ranks */
  double t0, t1; /* of ts_now */
} ts_span;

bool ts_trace_on(void);
void ts_trace_span(const ts_span *);
/* One that began while ts_trace_on(), and whose times are known only now. */
void ts_trace_span_late(const ts_span *);
/* Values of one counter, at ts_now(); names are static. */
void ts_trace_counter(const char *name, int n, const char *const *names,
                      const double *values);

/* The events of this rank go to PATH, one a line with commas between; times
 * are microseconds of ts_now() - ORIGIN.  Recorded is only while batches
 * FIRST <= b < END are trained: ts_trace_train says which is next.  Local;
 * trace_file.h has the collective form. */
ts_err ts_trace_open(const char *path, int rank, double origin, int64_t first,
                     int64_t end);
void ts_trace_train(int64_t batch);
int64_t ts_trace_count(void); /* events written so far */
ts_err ts_trace_close(void);  /* no-op where none is open */

/* Phases of a step for the table at the end of the log.  Times of a phase
 * add up; spans of lanes are booked under their span's name. */
void ts_timer_add(const char *phase, double seconds);
/* A part of the phase that this thread is in ("  of it sort"), counted in it,
 * too; of none: as a phase. */
void ts_timer_part(const char *part, double seconds);
/* The thread is in PHASE (static; NULL: in none). */
void ts_timer_enter(const char *phase);
void ts_timers_reset(void);
/* Calls FN for each phase in the order of first use, behind it for its parts:
 * parts of several phases may have one name. */
void ts_timers_each(void (*fn)(const char *phase, double seconds, int64_t calls,
                               void *arg),
                    void *arg);
