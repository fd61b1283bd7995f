/* clock.h - how long the work of a lane takes where it is done: on a GPU
 * between two of its events, which the host's clock knows nothing of.  The
 * host's own lanes take ts_now.
 * Functions are Local unless they say Collective or Enqueues. */
#pragma once

#include "runtime/device.h"

typedef struct ts_clock ts_clock;

/* Marks [0, n_marks) of LANE; destroyed before it. */
ts_err ts_clock_create(ts_clock **, ts_lane *, int n_marks);
void ts_clock_destroy(ts_clock *);

/* Mark I is where LANE is now, after all that was submitted; one that was set
 * before is set anew.  Enqueues. */
ts_err ts_clock_mark(ts_clock *, int i);

/* Whether marks are LANE's device's, and may be set within its tasks; else they
 * are tasks of their own. */
bool ts_clock_is_devices(const ts_lane *lane);

/* *SECONDS from mark A to mark B, which were set and which the host has waited
 * for (ts_lane_sync). */
ts_err ts_clock_between(const ts_clock *, int a, int b, double *seconds);
/* Seconds from mark A to mark B, which is not before it and may be of a clock
 * of another lane of the same device. */
ts_err ts_clock_across(const ts_clock *, int a, const ts_clock *, int b,
                       double *seconds);

/* While on, discrete devices time the tasks of their lanes for the
 * timers' phases (runtime/trace.h), as the host does always; and no graph is
 * noted down. */
void ts_clock_phases(bool on);
bool ts_clock_phases_on(void);
