/* trace.h - spans for the Chrome trace viewer, and phase timers.
 *
 * Spans cost one branch when tracing is off.  Thread-safe. */
#ifndef TS_RUNTIME_TRACE_H
#define TS_RUNTIME_TRACE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

double ts_now(void); /* seconds, monotonic */

/* <path>.<rank>.json in Chrome's JSON array format; pid = rank, tid = lane.
 * SPAN and LANE names must be static.  Local. */
ts_err ts_trace_open(const char *path, int rank);
ts_err ts_trace_close(void);
bool ts_trace_on(void);
void ts_trace_span(const char *lane, const char *span, double t0, double t1);
void ts_trace_counter(const char *name, double value); /* at ts_now() */

/* Phases of a step for the table at the end of the log.  Times of a phase
 * add up; spans of lanes are booked under their span's name. */
void ts_timer_add(const char *phase, double seconds);
void ts_timers_reset(void);
/* Calls FN for each phase in the order of first use. */
void ts_timers_each(void (*fn)(const char *phase, double seconds, int64_t calls,
                               void *arg),
                    void *arg);

#endif
