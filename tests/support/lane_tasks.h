/* lane_tasks.h - tasks that tell in which order lanes ran them: for programs
 * that test lanes, each with an order of its own. */
#pragma once

#include <stdatomic.h>

#include "base/err.h"
#include "runtime/device.h"

static atomic_int order[1024], n_done;

static ts_err append(void *arg, ts_lane *lane) {
  (void)lane;
  order[atomic_fetch_add(&n_done, 1)] = *(int *)arg;
  return TS_OK;
}

static ts_err slow_append(void *arg, ts_lane *lane) {
  for (volatile int i = 0; i < 2000000; i++) {
  }
  return append(arg, lane);
}

static ts_err break_down(void *arg, ts_lane *lane) {
  (void)arg, (void)lane;
  return ts_fail(TS_ERR_DATA, "on purpose");
}
