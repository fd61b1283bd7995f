/* hold_clock.h - how long holds take where they are done: where a device has
 * marks of its own (runtime/clock.h) between two of them, else by the host's
 * clock.  Local. */
#pragma once

#include "runtime/clock.h"

/* All zero at first. */
typedef struct ts_hold_clock {
  ts_clock *clock; /* of LANE; NULL: the host's */
  ts_lane *lane;
  int64_t n, n_read; /* holds that were marked; of them added up */
  double seconds, t0;
} ts_hold_clock;

/* Within a task of LANE, around what is enqueued. */
ts_err ts_hold_begin(ts_hold_clock *, ts_lane *lane);
ts_err ts_hold_end(ts_hold_clock *);
/* Seconds of all holds that have ended; the caller has waited for the lane. */
double ts_hold_seconds(ts_hold_clock *);
void ts_hold_clock_reset(ts_hold_clock *); /* before the lane goes */
