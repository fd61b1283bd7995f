/* replicas.c - the backward pass of tables that every rank holds.
 *
 * Each rank sums the gradients of the distinct rows that it touched and sends
 * them to all; every rank adds what arrived in rank order and updates the
 * same rows in the same way, so the copies stay equal bit for bit.
 *
 * How many rows those are the device finds.  Where the host would have to wait
 * for it (ebc->counts) it counts them as the batch is read, and input dist's
 * heads tell the others: then all ranks know all sizes, and what is sent is the
 * messages alone, gathered in place. */
#include <string.h>

#include "base/mem.h"
#include "shard/ebc_batch.h"

/* ---- sizes that heads have told ------------------------------------------ */

static bool is_replicated(const ts_sharding *sharding) {
  return !sharding->ops->remote && sharding->comm;
}

ts_err ts_replicas_create(ts_ebc *ebc) {
  int64_t most = 0;
  /* Rows of several micro-batches are sent as one. */
  if (!ebc->counts || ebc->config->run.accumulate > 1) return TS_OK;
  for (int32_t l = 0; l < ebc->n_shardings; l++) {
    ts_sharding *sharding = &ebc->shardings[l];
    if (!is_replicated(sharding)) continue;
    sharding->first_replica = ebc->n_replicas;
    ebc->n_replicas += sharding->n_groups;
    for (int32_t k = 0; k < sharding->n_pieces; k++) {
      const int64_t rows = ebc->config->tables[sharding->pieces[k].table].rows;
      if (rows > most) most = rows;
    }
  }
  return ts_mem_many(ebc->seen, (most + 63) / 64, MISC);
}

/* Ids of feature F that were not seen yet; those that are not rows become row
 * 0, as they do in unpack. */
static int64_t count_feature(const ts_ebc_batch *fl, int32_t f, int64_t rows) {
  const ts_jagged *j = &fl->kjt->features[f];
  uint64_t *seen = fl->ebc->seen;
  int64_t n = 0;
  for (int64_t k = 0; k < j->n_ids; k++) {
    const uint64_t row =
        (uint64_t)j->ids[k] < (uint64_t)rows ? (uint64_t)j->ids[k] : 0;
    const uint64_t bit = UINT64_C(1) << row % 64;
    n += !(seen[row / 64] & bit);
    seen[row / 64] |= bit;
  }
  return n;
}

/* A table's features share its rows. */
static int64_t count_group(const ts_ebc_batch *fl, const ts_sharding *sharding,
                           const ts_sharding_group *group) {
  int64_t n = 0;
  for (int32_t t = 0; t < ts_tbe_n_tables(group->tbe); t++) {
    const ts_tbe_table *table = ts_tbe_table_of(group->tbe, t);
    memset(fl->ebc->seen, 0, (size_t)(table->n_rows + 63) / 64 * 8);
    for (int32_t s = 0; s < group->n_slots; s++) {
      const ts_piece *piece = &sharding->pieces[group->piece[s]];
      if (piece->table == table->table_id)
        n += count_feature(fl, piece->feature, table->n_rows);
    }
  }
  return n;
}

void ts_replicas_count(ts_ebc_batch *fl) {
  const ts_ebc *ebc = fl->ebc;
  int64_t *to = fl->replica_rows + (int64_t)ebc->n_ranks * ebc->n_replicas;
  for (int32_t l = 0; ebc->n_replicas && l < ebc->n_shardings; l++) {
    const ts_sharding *sharding = &ebc->shardings[l];
    for (int32_t g = 0; is_replicated(sharding) && g < sharding->n_groups; g++)
      to[sharding->first_replica + g] =
          count_group(fl, sharding, &sharding->groups[g]);
  }
}

/* Distinct rows of rank R's batch in group G; -1: nobody has told. */
static int64_t rows_of(const ts_sharding_batch *lf, int r, int32_t g) {
  const ts_ebc *ebc = lf->sharding->ebc;
  if (!ebc->n_replicas) return -1;
  return lf->ebc_batch->replica_rows[(int64_t)r * ebc->n_replicas +
                                     lf->sharding->first_replica + g];
}

/* Room for all messages, one rank's after the other's, and this rank's into its
 * place. */
static ts_err make_own(void *p, ts_lane *lane) {
  (void)lane;
  ts_sharding_batch *lf = *(ts_sharding_batch **)p;
  const ts_sharding *sharding = lf->sharding;
  const int n_ranks = sharding->ebc->n_ranks, me = sharding->ebc->rank;
  int64_t total = 0;
  for (int r = 0; r < n_ranks; r++) {
    const int64_t first = total;
    for (int32_t g = 0; g < sharding->n_groups; g++) {
      const int64_t bytes =
          rows_of(lf, r, g) *
          (4 + 4 * ts_tbe_table_of(sharding->groups[g].tbe, 0)->n_cols);
      lf->arrived_bytes[g * n_ranks + r] = bytes;
      total += bytes;
    }
    lf->bundle_bytes[r] = total - first;
  }
  TS_DO(ts_buffer_reserve(&lf->exchange.recv, (size_t)total));
  char *at = lf->exchange.recv.ptr;
  for (int r = 0; r < n_ranks; r++) {
    if (r == me) lf->exchange.send = at;
    for (int32_t g = 0; g < sharding->n_groups; g++) {
      const int64_t bytes = lf->arrived_bytes[g * n_ranks + r];
      lf->arrived[g * n_ranks + r] = at;
      if (r == me)
        TS_DO(sharding->ebc->kernels->copy(at, lf->message[g], (size_t)bytes));
      at += bytes;
    }
  }
  return TS_OK;
}

/* ---- sizes that travel with the rows --------------------------------------
 */

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

/* ---- the pass ------------------------------------------------------------ */

ts_err ts_replicas_begin(ts_sharding_batch *lf, ts_lane *lane) {
  ts_sharding *sharding = lf->sharding;
  for (int32_t g = 0; g < sharding->n_groups; g++)
    TS_DO(ts_tbe_reduce(sharding->groups[g].tbe, &lf->message[g],
                        &lf->message_bytes[g], lf->out.ptr, &lf->inputs[g],
                        rows_of(lf, sharding->ebc->rank, g), lane));
  if (sharding->ebc->n_replicas) {
    TS_DO(ts_lane_run(lane, "bundle rows", make_own, lf));
    return ts_comm_all_gather_v(sharding->comm, &lf->token,
                                lf->exchange.recv.ptr, lf->exchange.send,
                                lf->bundle_bytes, lane);
  }
  TS_DO(ts_lane_run(lane, "bundle rows", make_bundle, lf));
  lf->exchange.send_bytes = lf->bundle_bytes;
  return ts_comm_exchange(sharding->comm, &lf->token, &lf->exchange, lane);
}

ts_err ts_replicas_end(ts_sharding_batch *lf, double lr_factor, int64_t pass,
                       ts_lane *lane) {
  ts_sharding *sharding = lf->sharding;
  const int n_ranks = sharding->ebc->n_ranks;
  TS_DO(ts_comm_end(&lf->token, lane));
  if (!sharding->ebc->n_replicas)
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
