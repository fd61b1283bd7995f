/* tbe_prefetch.c - rows of a batch to come, for groups over a cached tier. */
#include "base/mem.h"
#include "sparse/tbe_impl.h"

typedef struct ts_prefetch_arg {
  ts_tbe *tbe;
  ts_tbe_input input;
  bool release;
} ts_prefetch_arg;

/* Group rows of all ids of the batch. */
static void fill_rows(const ts_tbe *t, const ts_tbe_input *in, uint32_t *rows) {
  for (int32_t f = 0; f < t->n_features; f++) {
    const int64_t from = in->offsets[in->bag_start[f]];
    const int64_t to = in->offsets[in->bag_start[f + 1]];
    for (int64_t i = from; i < to; i++)
      rows[i] = (uint32_t)(t->feature_base[f] + in->rows[i]);
  }
}

static ts_err prefetch_task(void *p, ts_lane *lane) {
  ts_err err = TS_OK;
  const ts_prefetch_arg *a = p;
  const ts_tier_ops *tier = a->tbe->tier->ops;
  const int64_t n = a->input.n_ids;
  uint32_t *rows = NULL;
  const uint32_t *slots;
  ts_event ready;
  TS_TRY(ts_mem_array(&rows, n, sizeof *rows, TS_TAG_SPARSE));
  fill_rows(a->tbe, &a->input, rows);
  if (a->release) {
    TS_TRY(tier->unlock(a->tbe->tier, rows, n, lane));
  } else {
    TS_TRY(tier->resolve(a->tbe->tier, &slots, &ready, rows, n, lane));
    TS_TRY(tier->lock(a->tbe->tier, slots, n, lane));
  }
done:
  ts_mem_free(rows);
  return err;
}

static ts_err submit(ts_tbe *t, const ts_tbe_input *input, bool release,
                     ts_lane *lane) {
  ts_prefetch_arg arg = {t, *input, release};
  if (!t->tier->ops->cached || !input->n_ids) return TS_OK;
  return ts_lane_submit(lane, release ? "release" : "prefetch", prefetch_task,
                        &arg, sizeof arg);
}

ts_err ts_tbe_prefetch(ts_tbe *t, const ts_tbe_input *input, ts_lane *lane) {
  return submit(t, input, false, lane);
}

ts_err ts_tbe_release(ts_tbe *t, const ts_tbe_input *input, ts_lane *lane) {
  return submit(t, input, true, lane);
}
