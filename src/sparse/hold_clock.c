/* hold_clock.c - marks around holds, read when figures are asked for. */
#include "sparse/hold_clock.h"

#include "runtime/trace.h"

/* Holds that may be marked and not read: more than a pipeline has under way.
 * One that is so old has ended. */
enum { HOLDS = 64 };

static int mark_of(int64_t hold) {
  return (int)(2 * (hold % HOLDS));
}

static ts_err read_next(ts_hold_clock *h) {
  double seconds = 0;
  const int i = mark_of(h->n_read++);
  TS_DO(ts_clock_between(h->clock, i, i + 1, &seconds));
  h->seconds += seconds;
  return TS_OK;
}

/* Holds that have not ended, or can't be read, are left out. */
double ts_hold_seconds(ts_hold_clock *h) {
  while (h->n_read < h->n)
    if (read_next(h) != TS_OK) ts_err_clear();
  return h->seconds;
}

void ts_hold_clock_reset(ts_hold_clock *h) {
  ts_clock_destroy(h->clock);
  h->clock = NULL;
  h->n = h->n_read = 0;
}

static ts_err change_lane(ts_hold_clock *h, ts_lane *lane) {
  (void)ts_hold_seconds(h);
  ts_hold_clock_reset(h);
  TS_DO(ts_clock_create(&h->clock, lane, 2 * HOLDS));
  h->lane = lane;
  return TS_OK;
}

ts_err ts_hold_begin(ts_hold_clock *h, ts_lane *lane) {
  h->t0 = ts_now();
  if (!lane || !ts_clock_is_devices(lane)) return TS_OK;
  if (lane != h->lane) TS_DO(change_lane(h, lane));
  if (h->n - h->n_read == HOLDS) TS_DO(read_next(h));
  return ts_clock_mark(h->clock, mark_of(h->n));
}

ts_err ts_hold_end(ts_hold_clock *h) {
  if (h->clock)
    TS_DO(ts_clock_mark(h->clock, mark_of(h->n++) + 1));
  else
    h->seconds += ts_now() - h->t0;
  return TS_OK;
}
