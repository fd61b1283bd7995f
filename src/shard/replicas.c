/* replicas.c - the backward pass of tables that every rank holds.
 *
 * Each rank sums the gradients of the distinct rows that it touched and sends
 * them to all; every rank adds what arrived in rank order and updates the
 * same rows in the same way, so the copies stay equal bit for bit. */
#include <string.h>

#include "base/mem.h"
#include "shard/ebc_batch.h"

/* bundle: (W copies of) [bytes of each group's message | the messages]. */
static ts_err make_bundle(void *p, ts_lane *lane) {
  (void)lane;
  ts_sharding_batch *lf = *(ts_sharding_batch **)p;
  const ts_kernels *k = lf->sharding->ebc->kernels;
  const int32_t n_groups = lf->sharding->n_groups;
  const int n_ranks = lf->sharding->ebc->n_ranks;
  int64_t bytes = 8 * n_groups;
  for (int32_t g = 0; g < n_groups; g++) bytes += lf->message_bytes[g];
  bytes = (bytes + 7) / 8 * 8;
  TS_DO(ts_buffer_reserve(&lf->bundle, (size_t)bytes * (size_t)n_ranks));
  for (int r = 0; r < n_ranks; r++) {
    char *to = (char *)lf->bundle.ptr + r * bytes;
    TS_DO(k->put(to, lf->message_bytes, 8 * (size_t)n_groups));
    to += 8 * n_groups;
    for (int32_t g = 0; g < n_groups; to += lf->message_bytes[g++])
      TS_DO(k->copy(to, lf->message[g], (size_t)lf->message_bytes[g]));
    lf->bundle_bytes[r] = bytes;
  }
  lf->exchange.send = lf->bundle.ptr;
  return TS_OK;
}

/* Finds each group's messages in what arrived, by the bytes of each, which the
 * host has to know. */
static ts_err open_bundles(void *p, ts_lane *lane) {
  (void)lane;
  ts_sharding_batch *lf = *(ts_sharding_batch **)p;
  const int32_t n_groups = lf->sharding->n_groups;
  const int n_ranks = lf->sharding->ebc->n_ranks;
  const ts_exchange *x = &lf->exchange;
  for (int r = 0; r < n_ranks; r++) {
    int64_t bytes[n_groups];
    const char *at = (const char *)x->recv.ptr + x->recv_at[r];
    TS_DO(lf->sharding->ebc->kernels->fetch(bytes, at, sizeof bytes));
    at += sizeof bytes;
    for (int32_t g = 0; g < n_groups; at += bytes[g++]) {
      lf->arrived[g * n_ranks + r] = at;
      lf->arrived_bytes[g * n_ranks + r] = bytes[g];
    }
  }
  return TS_OK;
}

ts_err ts_replicas_begin(ts_sharding_batch *lf, ts_lane *lane) {
  ts_sharding *sharding = lf->sharding;
  for (int32_t g = 0; g < sharding->n_groups; g++)
    TS_DO(ts_tbe_reduce(sharding->groups[g].tbe, &lf->message[g],
                        &lf->message_bytes[g], lf->out.ptr, &lf->inputs[g],
                        lane));
  TS_DO(ts_lane_run(lane, "bundle rows", make_bundle, lf));
  lf->exchange.send_bytes = lf->bundle_bytes;
  return ts_comm_exchange(sharding->comm, &lf->token, &lf->exchange, lane);
}

ts_err ts_replicas_end(ts_sharding_batch *lf, double lr_factor, int64_t pass,
                       ts_lane *lane) {
  ts_sharding *sharding = lf->sharding;
  const int n_ranks = sharding->ebc->n_ranks;
  TS_DO(ts_comm_end(&lf->token, lane));
  TS_DO(ts_lane_run(lane, "open rows", open_bundles, lf));
  for (int32_t g = 0; g < sharding->n_groups; g++)
    if (sharding->groups[g].dense)
      TS_DO(ts_dense_rows_scatter(
          sharding->groups[g].dense, &lf->arrived[g * n_ranks],
          &lf->arrived_bytes[g * n_ranks], n_ranks, lane));
    else
      TS_DO(ts_tbe_apply(sharding->groups[g].tbe, &lf->arrived[g * n_ranks],
                         &lf->arrived_bytes[g * n_ranks], n_ranks, lr_factor,
                         pass, lane));
  return TS_OK;
}
