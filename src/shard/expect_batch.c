/* expect_batch.c - a batch in flight's buffers, before step 0: a full batch of
 * all ranks is played through the code that makes room for real ones, so that
 * sizes stand once. */
#include <string.h>

#include "base/mem.h"
#include "shard/message.h"

static ts_err join_sharding(ts_pool *pool, ts_sharding_batch *lf) {
  ts_buffer *all[TS_SHARDING_BUFFERS];
  ts_buffer **groups[TS_GROUP_BUFFERS];
  const int n = ts_sharding_batch_buffers(lf, all);
  ts_sharding_group_buffers(lf, groups);
  for (int i = 0; i < n; i++) TS_DO(ts_pool_add(pool, all[i]));
  for (int i = 0; i < TS_GROUP_BUFFERS; i++)
    for (int32_t g = 0; g < lf->sharding->n_groups; g++)
      TS_DO(ts_pool_add(pool, &(*groups[i])[g]));
  return TS_OK;
}

static ts_err join(ts_ebc_batch *fl) {
  TS_DO(ts_pool_add(&fl->pool, &fl->send));
  TS_DO(ts_pool_add(&fl->pool, &fl->exchange.recv));
  TS_DO(ts_pool_add(&fl->pool, &fl->arrived));
  TS_DO(ts_pool_add(&fl->pool, &fl->list));
  TS_DO(ts_pool_add(&fl->pool, &fl->list_copy));
  for (int32_t l = 0; l < fl->ebc->n_shardings; l++)
    TS_DO(join_sharding(&fl->pool, &fl->shardings[l]));
  return TS_OK;
}

/* Sequences cut by rows: ids that come to each of this rank's pieces. */
static void count_split(ts_sharding_batch *lf) {
  const ts_sharding *sharding = lf->sharding;
  const ts_ebc *ebc = sharding->ebc;
  const ts_route *own = ebc->routes + ebc->route_start[ebc->rank];
  if (!sharding->sequence || !sharding->ops->split_rows || !sharding->travels)
    return;
  for (int32_t g = 0; g < sharding->n_groups; g++)
    for (int32_t s = 0; s < sharding->groups[g].n_slots; s++)
      for (int r = 0; r < ebc->n_ranks; r++) {
        int64_t n_bags;
        lf->count[(int64_t)r * sharding->n_pieces +
                  sharding->groups[g].piece[s]] =
            (int32_t)ts_expect_route(ebc, &own[sharding->groups[g].route[s]],
                                     &n_bags);
      }
}

/* Everyone's rows of everyone's groups; the same on all ranks. */
static ts_err reserve_bundles(ts_sharding_batch *lf) {
  ts_sharding *sharding = lf->sharding;
  const int n_ranks = sharding->ebc->n_ranks;
  int64_t bytes = 8 * sharding->n_groups;
  if (sharding->ops->remote || !sharding->comm) return TS_OK;
  for (int32_t g = 0; g < sharding->n_groups; g++)
    bytes += ts_expect_group(sharding, &sharding->groups[g]).n_sums * 4 *
             (1 + ts_tbe_table_of(sharding->groups[g].tbe, 0)->n_cols);
  bytes = ts_room_bytes((bytes + 7) / 8 * 8);
  for (int r = 0; r < n_ranks && !sharding->ebc->has_batches; r++)
    sharding->rooms.send[r] = sharding->rooms.recv[r] = bytes;
  if (!sharding->ebc->n_replicas) /* else they are gathered in place */
    TS_DO(ts_buffer_reserve(&lf->bundle, (size_t)(bytes * n_ranks)));
  return ts_buffer_reserve(&lf->exchange.recv, (size_t)(bytes * n_ranks));
}

static ts_err reserve_sharding(ts_sharding_batch *lf) {
  const ts_sharding *sharding = lf->sharding;
  count_split(lf);
  TS_DO(ts_sharding_measure(lf));
  for (int32_t g = 0; g < sharding->n_groups; g++) {
    const ts_tbe_expected x = ts_expect_group(sharding, &sharding->groups[g]);
    TS_DO(ts_sharding_reserve_input(lf, g, x.n_bags, x.n_ids));
  }
  TS_DO(reserve_bundles(lf));
  /* Operations are under way once there was a batch in flight. */
  if (sharding->output->scratch && !sharding->ebc->has_batches)
    TS_DO(sharding->output->scratch(lf));
  return TS_OK;
}

static ts_err reserve_messages(ts_ebc_batch *fl) {
  const ts_ebc *ebc = fl->ebc;
  int64_t send = 0, recv = 0, arrived = 0, n_bags = 0;
  for (int r = 0; r < ebc->n_ranks; r++) {
    send += ts_expect_message(ebc, r);
    recv += ts_room_bytes(ts_expect_message(ebc, ebc->rank));
    arrived += ts_expect_sections(ebc, ebc->rank);
  }
  TS_DO(ts_buffer_reserve(&fl->arrived, (size_t)arrived));
  TS_DO(ts_buffer_reserve(&fl->send, (size_t)send));
  TS_DO(ts_buffer_reserve(&fl->exchange.recv, (size_t)recv));
  for (int32_t l = 0; l < ebc->n_shardings; l++)
    for (int32_t g = 0; g < ebc->shardings[l].n_groups; g++)
      n_bags +=
          ts_expect_group(&ebc->shardings[l], &ebc->shardings[l].groups[g])
              .n_bags;
  return ts_input_reserve(fl, ts_input_parts(fl, n_bags));
}

/* As if no batch had been. */
static void forget(ts_ebc_batch *fl) {
  const ts_ebc *ebc = fl->ebc;
  memset(fl->batch, 0, (size_t)ebc->n_ranks * sizeof *fl->batch);
  for (int32_t f = 0; f < ebc->n_features; f++)
    fl->bags[f] = (ts_bags){.store = fl->bags[f].store};
}

ts_err ts_ebc_batch_expect(ts_ebc_batch *fl) {
  TS_DO(join(fl));
  for (int r = 0; r < fl->ebc->n_ranks; r++) fl->batch[r] = fl->ebc->batch_max;
  TS_DO(ts_bags_expect(fl));
  TS_DO(ts_send_expect(fl));
  for (int32_t l = 0; l < fl->ebc->n_shardings; l++)
    TS_DO(reserve_sharding(&fl->shardings[l]));
  TS_DO(reserve_messages(fl));
  TS_DO(ts_pool_start(&fl->pool));
  fl->ebc->has_batches = true;
  forget(fl);
  return TS_OK;
}
