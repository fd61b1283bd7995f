/* clock.c - marks of a lane: what the device has for them, else a task that
 * looks at the clock. */
#include "runtime/clock.h"

#include "runtime/device_impl.h"
#include "runtime/trace.h"

typedef union ts_mark {
  void *own; /* the device's; NULL: never set */
  double at; /* of ts_now */
} ts_mark;

struct ts_clock {
  ts_lane *lane;
  int n;
  ts_mark *mark; /* (n) */
};

static bool phases;

void ts_clock_phases(bool on) {
  __atomic_store_n(&phases, on, __ATOMIC_RELAXED);
}

bool ts_clock_phases_on(void) {
  return __atomic_load_n(&phases, __ATOMIC_RELAXED);
}

static const ts_device_ops *ops_of(const ts_clock *c) {
  return c->lane->device->ops;
}

ts_err ts_clock_create(ts_clock **out, ts_lane *lane, int n_marks) {
  ts_err err = TS_OK;
  ts_clock *c = NULL;
  TS_TRY(ts_mem_alloc(&c, sizeof *c, TS_TAG_MISC));
  *c = (ts_clock){.lane = lane, .n = n_marks};
  TS_TRY(ts_mem_many(c->mark, n_marks, MISC));
  *out = c;
  c = NULL;
done:
  ts_clock_destroy(c);
  return err;
}

void ts_clock_destroy(ts_clock *c) {
  if (!c) return;
  for (int i = 0; c->mark && ops_of(c)->mark && i < c->n; i++)
    if (c->mark[i].own) ops_of(c)->unmark(c->mark[i].own);
  ts_mem_free_all(c->mark, c);
}

bool ts_clock_is_devices(const ts_lane *lane) {
  return lane->device->ops->mark != NULL;
}

static ts_err look(void *arg, ts_lane *lane) {
  (void)lane;
  **(double **)arg = ts_now();
  return TS_OK;
}

ts_err ts_clock_mark(ts_clock *c, int i) {
  if (i < 0 || i >= c->n)
    return ts_fail(TS_ERR_INTERNAL, "mark %d of a clock with %d", i, c->n);
  double *at = &c->mark[i].at;
  if (ops_of(c)->mark) return ops_of(c)->mark(c->lane, &c->mark[i].own);
  return ts_lane_run(c->lane, "clock", look, at);
}

ts_err ts_clock_between(const ts_clock *c, int a, int b, double *seconds) {
  return ts_clock_across(c, a, c, b, seconds);
}

ts_err ts_clock_across(const ts_clock *c, int a, const ts_clock *d, int b,
                       double *seconds) {
  const ts_mark *from = &c->mark[a], *to = &d->mark[b];
  if (ops_of(c)->mark)
    return ops_of(c)->between(c->lane, from->own, to->own, seconds);
  *seconds = to->at - from->at;
  return TS_OK;
}
