/* data_parallel.c - each table whole on every rank.
 *
 * Nothing travels on the way in: a rank looks up its own samples.  On the way
 * back each rank sums the gradients of the distinct rows that it touched and
 * sends them to all; every rank adds what arrived in rank order and updates
 * the same rows in the same way, so the copies stay equal bit for bit. */
#include <string.h>

#include "base/mem.h"
#include "shard/sharding.h"

static ts_err place(ts_table_plan *p, const ts_table_config *t,
                    const ts_placement *at) {
  ts_err err = TS_OK;
  if (t->ranks.n)
    TS_THROW(TS_ERR_DECK,
             "table %s: data_parallel is on every rank and takes no `ranks`",
             t->name);
  for (int r = 0; r < at->nodes->n_ranks; r++)
    TS_TRY(ts_place_rows(p, t, &r, 1, 0, t->dim));
done:
  return err;
}

static void resize(ts_lot_flight *lf) {
  (void)lf;
}

static ts_err nothing(ts_lot_flight *lf, ts_lane *lane) {
  (void)lf, (void)lane;
  return TS_OK;
}

/* bundle: (W copies of) [bytes of each group's message | the messages]. */
static ts_err make_bundle(void *p, ts_lane *lane) {
  (void)lane;
  ts_err err = TS_OK;
  ts_lot_flight *lf = *(ts_lot_flight **)p;
  const int32_t n_groups = lf->lot->n_groups;
  const int n_ranks = lf->lot->ebc->n_ranks;
  int64_t bytes = 8 * n_groups;
  for (int32_t g = 0; g < n_groups; g++) bytes += lf->message_bytes[g];
  bytes = (bytes + 7) / 8 * 8;
  TS_TRY(ts_buffer_reserve(&lf->bundle, (size_t)bytes * (size_t)n_ranks));
  char *to = lf->bundle.ptr;
  memcpy(to, lf->message_bytes, 8 * (size_t)n_groups);
  to += 8 * n_groups;
  for (int32_t g = 0; g < n_groups; g++) {
    memcpy(to, lf->message[g], (size_t)lf->message_bytes[g]);
    to += lf->message_bytes[g];
  }
  for (int r = 0; r < n_ranks; r++) lf->bundle_bytes[r] = bytes;
  for (int r = 1; r < n_ranks; r++)
    memcpy((char *)lf->bundle.ptr + r * bytes, lf->bundle.ptr, (size_t)bytes);
  lf->exchange.send = lf->bundle.ptr;
done:
  return err;
}

/* Where each group's messages lie in what arrived. */
static ts_err open_bundles(void *p, ts_lane *lane) {
  (void)lane;
  ts_lot_flight *lf = *(ts_lot_flight **)p;
  const int32_t n_groups = lf->lot->n_groups;
  const int n_ranks = lf->lot->ebc->n_ranks;
  const char *from = lf->exchange.recv.ptr;
  for (int r = 0; r < n_ranks; r++) {
    const char *at = from + 8 * n_groups;
    for (int32_t g = 0; g < n_groups; g++) {
      int64_t bytes;
      memcpy(&bytes, from + 8 * g, 8);
      lf->arrived[g * n_ranks + r] = at;
      lf->arrived_bytes[g * n_ranks + r] = bytes;
      at += bytes;
    }
    from += lf->exchange.recv_bytes[r];
  }
  return TS_OK;
}

static ts_err backward_begin(ts_lot_flight *lf, ts_lane *lane) {
  ts_err err = TS_OK;
  ts_lot *lot = lf->lot;
  if (!lot->comm) return TS_OK;
  for (int32_t g = 0; g < lot->n_groups; g++)
    TS_TRY(ts_tbe_reduce(lot->groups[g].tbe, &lf->message[g],
                         &lf->message_bytes[g], lf->grad_out.ptr,
                         lot->own_width, &lf->inputs[g], lane));
  TS_TRY(ts_lane_submit(lane, "bundle rows", make_bundle, &lf, sizeof lf));
  lf->exchange.send_bytes = lf->bundle_bytes;
  TS_TRY(ts_comm_exchange(lot->comm, &lf->token, &lf->exchange, lane));
done:
  return err;
}

static ts_err backward_end(ts_lot_flight *lf, double lr_factor, int64_t pass,
                           ts_lane *lane) {
  ts_err err = TS_OK;
  ts_lot *lot = lf->lot;
  const int n_ranks = lot->ebc->n_ranks;
  if (!lot->comm) return ts_lot_backward(lf, lr_factor, pass, lane);
  TS_TRY(ts_comm_end(&lf->token, lane));
  TS_TRY(ts_lane_submit(lane, "open rows", open_bundles, &lf, sizeof lf));
  for (int32_t g = 0; g < lot->n_groups; g++)
    TS_TRY(ts_tbe_apply(lot->groups[g].tbe, &lf->arrived[g * n_ranks],
                        &lf->arrived_bytes[g * n_ranks], n_ranks, lr_factor,
                        pass, lane));
done:
  return err;
}

extern const ts_sharding_ops ts_sharding_data_parallel;
const ts_sharding_ops ts_sharding_data_parallel = {
    .name = "data_parallel",
    .kind = TS_SHARD_DATA_PARALLEL,
    .remote = false,
    .bucketize = false,
    .place = place,
    .layout = ts_lot_layout_whole,
    .resize = resize,
    .forward_begin = nothing,
    .forward_end = nothing,
    .backward_begin = backward_begin,
    .backward_end = backward_end,
};
