/* tbe_prefetch.c - rows of a batch to come, for groups over a cached tier. */
#include "base/mem.h"
#include "sparse/cache.h"
#include "sparse/tbe_impl.h"

typedef struct ts_prefetch_arg {
  ts_tbe *tbe;
  ts_tbe_input input;
} ts_prefetch_arg;

/* Group rows of all ids of the batch: the tier makes slots of them. */
static ts_err fill_rows(const ts_tbe *t, const ts_tbe_input *in,
                        uint32_t *rows) {
  const ts_cache_rows_args a = {.out = rows,
                                .offsets = in->offsets,
                                .rows = in->rows,
                                .bag_start = in->bag_start,
                                .row_base = t->feature_base,
                                .n_features = t->n_features,
                                .n = in->n_ids};
  return t->kernels->cache_rows(&a);
}

static ts_err prefetch_task(void *p, ts_lane *lane) {
  const ts_prefetch_arg *a = p;
  ts_tier *tier = a->tbe->tier;
  ts_buffer *slots = &a->input.hold->slots;
  a->input.hold->in_place = false;
  TS_DO(ts_buffer_reserve(slots, (size_t)a->input.n_ids * 4));
  TS_DO(fill_rows(a->tbe, &a->input, slots->ptr));
  TS_DO(tier->ops->hold(tier, slots->ptr, a->input.n_ids, lane));
  a->input.hold->in_place = true;
  return TS_OK;
}

/* A prefetch may have failed on a lane of its own, which leaves slots that
 * nobody filled. */
static ts_err release_task(void *p, ts_lane *lane) {
  const ts_prefetch_arg *a = p;
  ts_tier *tier = a->tbe->tier;
  if (!a->input.hold->in_place) return TS_OK;
  a->input.hold->in_place = false;
  return tier->ops->release(tier, a->input.hold->slots.ptr, a->input.n_ids,
                            lane);
}

static ts_err submit(ts_tbe *t, const ts_tbe_input *input, bool hold,
                     ts_lane *lane) {
  ts_prefetch_arg arg = {t, *input};
  if (!input->hold || !input->n_ids || input->hold->held == hold) return TS_OK;
  input->hold->held = hold;
  return ts_lane_run(lane, hold ? "prefetch" : "release",
                     hold ? prefetch_task : release_task, arg);
}

ts_err ts_tbe_prefetch(ts_tbe *t, const ts_tbe_input *input, ts_lane *lane) {
  return submit(t, input, true, lane);
}

ts_err ts_tbe_release(ts_tbe *t, const ts_tbe_input *input, ts_lane *lane) {
  return submit(t, input, false, lane);
}

static ts_err refresh_task(void *p, ts_lane *lane) {
  (void)lane;
  const ts_prefetch_arg *a = p;
  ts_tier *tier = a->tbe->tier;
  if (!a->input.hold->in_place) return TS_OK;
  return tier->ops->refresh(tier, a->input.hold->slots.ptr, a->input.n_ids);
}

ts_err ts_tbe_refresh(ts_tbe *t, const ts_tbe_input *input, ts_lane *lane) {
  ts_prefetch_arg arg = {t, *input};
  if (!input->hold || !input->n_ids || !input->hold->held) return TS_OK;
  return ts_lane_run(lane, "refresh", refresh_task, arg);
}
