/* metrics_device.c - a metric's newest steps and samples in the memory of a
 * device: steps add to them without the host, who sees them where they are
 * asked for. */
#include "base/mem.h"
#include "runtime/arrays.h"
#include "train/metrics_impl.h"

struct ts_metrics_device {
  const ts_kernels *kernels;
  ts_lane *lane;
  ts_staging *staging;
  ts_arrays arrays;
  ts_metric_sums *fresh; /* device memory, as are the ring (limit) */
  ts_metric_place *place;
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
  TS_DO(ts_arrays_take(&t->arrays, device, &t->fresh, m->n_fresh,
                       sizeof *t->fresh, TS_TAG_METRICS));
  TS_DO(ts_arrays_take(&t->arrays, device, &t->place, 1, sizeof *t->place,
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
  a.args.sums = &t->fresh[m->at];
  a.args.place = t->place;
  a.args.ring = t->ring;
  a.args.limit = m->limit;
  return ts_lane_submit(t->lane, "metrics", tally_task, &a, sizeof a);
}

/* Places from the first to that of the step under way. */
static size_t fresh_bytes(const ts_metrics *m) {
  return (size_t)(m->at + 1) * sizeof *m->fresh;
}

ts_err ts_metrics_fetch_fresh(ts_metrics *m) {
  ts_err err = TS_OK;
  const struct ts_metrics_device *t = m->on_device;
  ts_metric_sums *none = NULL;
  if (!t) return TS_OK;
  TS_TRY(ts_mem_many(none, m->at + 1, METRICS));
  TS_TRY(ts_lane_sync(t->lane));
  TS_TRY(ts_staging_get(t->staging, m->fresh, t->fresh, fresh_bytes(m)));
  TS_TRY(ts_staging_put(t->staging, t->fresh, none, fresh_bytes(m)));
done:
  ts_mem_free(none);
  return err;
}

ts_err ts_metrics_fetch(ts_metrics *m) {
  const struct ts_metrics_device *t = m->on_device;
  ts_metric_place place;
  if (!t) return TS_OK;
  TS_DO(ts_lane_sync(t->lane));
  TS_DO(ts_staging_get(t->staging, &place, t->place, sizeof place));
  TS_DO(ts_metrics_reserve(m, place.n));
  TS_DO(ts_staging_get(t->staging, m->ring, t->ring,
                       (size_t)place.n * sizeof *m->ring));
  m->place = place;
  return TS_OK;
}

ts_err ts_metrics_put(ts_metrics *m) {
  const struct ts_metrics_device *t = m->on_device;
  if (!t) return TS_OK;
  TS_DO(ts_lane_sync(t->lane));
  TS_DO(ts_staging_put(t->staging, t->fresh, m->fresh,
                       (size_t)m->n_fresh * sizeof *m->fresh));
  TS_DO(ts_staging_put(t->staging, t->place, &m->place, sizeof m->place));
  return ts_staging_put(t->staging, t->ring, m->ring,
                        (size_t)m->place.n * sizeof *m->ring);
}
