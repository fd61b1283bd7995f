/* metrics_device.c - sums and window of a metric in the memory of a device:
 * steps add to them without the host, who sees them where they are asked
 * for. */
#include "base/mem.h"
#include "runtime/arrays.h"
#include "train/metrics_impl.h"

typedef struct ts_metrics_state {
  ts_metric_sums sums;
  ts_metric_place place;
} ts_metrics_state;

struct ts_metrics_device {
  const ts_kernels *kernels;
  ts_lane *lane;
  ts_staging *staging;
  ts_arrays arrays;
  ts_metrics_state *state; /* device memory, as is the ring (limit) */
  ts_metric_sample *ring;
};

ts_err ts_metrics_place(ts_metrics *m, const ts_kernels *k, ts_lane *lane,
                        ts_staging *staging) {
  struct ts_metrics_device *t = NULL;
  ts_device *device = ts_lane_device(lane);
  TS_DO(ts_mem_alloc(&t, sizeof *t, TS_TAG_METRICS));
  m->on_device = t;
  t->kernels = k;
  t->lane = lane;
  t->staging = staging;
  TS_DO(ts_arrays_take(&t->arrays, device, &t->state, 1, sizeof *t->state,
                       TS_TAG_METRICS));
  return ts_arrays_take(&t->arrays, device, &t->ring, m->limit, sizeof *t->ring,
                        TS_TAG_METRICS);
}

void ts_metrics_leave(ts_metrics *m) {
  if (!m->on_device) return;
  ts_arrays_reset(&m->on_device->arrays);
  ts_mem_free(m->on_device);
  m->on_device = NULL;
}

typedef struct ts_tally_task {
  const ts_kernels *kernels;
  ts_tally_args args;
} ts_tally_task;

static ts_err tally_task(void *arg, ts_lane *lane) {
  const ts_tally_task *a = arg;
  (void)lane;
  return a->kernels->tally(&a->args);
}

ts_err ts_metrics_tally(ts_metrics *m, const ts_tally_args *args) {
  const struct ts_metrics_device *t = m->on_device;
  ts_tally_task a = {t->kernels, *args};
  a.args.sums = &t->state->sums;
  a.args.place = &t->state->place;
  a.args.ring = t->ring;
  a.args.limit = m->limit;
  return ts_lane_submit(t->lane, "metrics", tally_task, &a, sizeof a);
}

ts_err ts_metrics_fetch(ts_metrics *m) {
  const struct ts_metrics_device *t = m->on_device;
  ts_metrics_state state;
  if (!t) return TS_OK;
  TS_DO(ts_lane_sync(t->lane));
  TS_DO(ts_staging_get(t->staging, &state, t->state, sizeof state));
  TS_DO(ts_metrics_reserve(m, state.place.n));
  TS_DO(ts_staging_get(t->staging, m->ring, t->ring,
                       (size_t)state.place.n * sizeof *m->ring));
  m->sums = state.sums;
  m->place = state.place;
  return TS_OK;
}

ts_err ts_metrics_put(ts_metrics *m) {
  const struct ts_metrics_device *t = m->on_device;
  const ts_metrics_state state = {m->sums, m->place};
  if (!t) return TS_OK;
  TS_DO(ts_lane_sync(t->lane));
  TS_DO(ts_staging_put(t->staging, t->state, &state, sizeof state));
  return ts_staging_put(t->staging, t->ring, m->ring,
                        (size_t)m->place.n * sizeof *m->ring);
}
