/* expect_flight.c - a flight's buffers, before step 0: a full batch of all
 * ranks is played through the code that makes room for real ones, so that
 * sizes stand once. */
#include <string.h>

#include "base/mem.h"
#include "shard/message.h"

static ts_err join_lot(ts_pool *pool, ts_lot_flight *lf) {
  ts_err err = TS_OK;
  ts_buffer *all[TS_LOT_BUFFERS];
  ts_buffer *groups[TS_GROUP_BUFFERS] = {
      lf->starts,  lf->offsets,   lf->at,          lf->rows,
      lf->weights, lf->positions, lf->weight_grads};
  const int n = ts_lot_flight_buffers(lf, all);
  for (int i = 0; i < n; i++) TS_TRY(ts_pool_add(pool, all[i]));
  for (int i = 0; i < TS_GROUP_BUFFERS; i++)
    for (int32_t g = 0; g < lf->lot->n_groups; g++)
      TS_TRY(ts_pool_add(pool, &groups[i][g]));
done:
  return err;
}

static ts_err join(ts_flight *fl) {
  ts_err err = TS_OK;
  TS_TRY(ts_pool_add(&fl->pool, &fl->send));
  TS_TRY(ts_pool_add(&fl->pool, &fl->exchange.recv));
  TS_TRY(ts_pool_add(&fl->pool, &fl->arrived));
  TS_TRY(ts_pool_add(&fl->pool, &fl->list));
  TS_TRY(ts_pool_add(&fl->pool, &fl->list_copy));
  for (int32_t l = 0; l < fl->ebc->n_lots; l++)
    TS_TRY(join_lot(&fl->pool, &fl->lots[l]));
done:
  return err;
}

/* Sequences cut by rows: ids that come to each of this rank's pieces. */
static void count_split(ts_lot_flight *lf) {
  const ts_lot *lot = lf->lot;
  const ts_ebc *ebc = lot->ebc;
  const ts_route *own = ebc->routes + ebc->route_start[ebc->rank];
  if (!lot->sequence || !lot->ops->split_rows || !lot->travels) return;
  for (int32_t g = 0; g < lot->n_groups; g++)
    for (int32_t s = 0; s < lot->groups[g].n_slots; s++)
      for (int r = 0; r < ebc->n_ranks; r++) {
        int64_t n_bags;
        lf->count[(int64_t)r * lot->n_pieces + lot->groups[g].piece[s]] =
            (int32_t)ts_expect_route(ebc, &own[lot->groups[g].route[s]],
                                     &n_bags);
      }
}

/* Everyone's rows of everyone's groups; the same on all ranks. */
static ts_err reserve_bundles(ts_lot_flight *lf) {
  ts_err err = TS_OK;
  ts_lot *lot = lf->lot;
  const int n_ranks = lot->ebc->n_ranks;
  int64_t bytes = 8 * lot->n_groups;
  if (lot->ops->remote || !lot->comm) return TS_OK;
  for (int32_t g = 0; g < lot->n_groups; g++)
    bytes += ts_expect_group(lot, &lot->groups[g]).n_sums * 4 *
             (1 + ts_tbe_table_of(lot->groups[g].tbe, 0)->n_cols);
  bytes = ts_room_bytes((bytes + 7) / 8 * 8);
  for (int r = 0; r < n_ranks && !lot->ebc->has_flights; r++)
    lot->rooms.send[r] = lot->rooms.recv[r] = bytes;
  TS_TRY(ts_buffer_reserve(&lf->bundle, (size_t)(bytes * n_ranks)));
  TS_TRY(ts_buffer_reserve(&lf->exchange.recv, (size_t)(bytes * n_ranks)));
done:
  return err;
}

static ts_err reserve_lot(ts_lot_flight *lf) {
  ts_err err = TS_OK;
  const ts_lot *lot = lf->lot;
  count_split(lf);
  TS_TRY(ts_lot_measure(lf));
  for (int32_t g = 0; g < lot->n_groups; g++) {
    const ts_tbe_expected x = ts_expect_group(lot, &lot->groups[g]);
    TS_TRY(ts_lot_reserve_input(lf, g, x.n_bags, x.n_ids));
  }
  TS_TRY(reserve_bundles(lf));
  /* Operations are under way once there was a flight. */
  if (lot->output->scratch && !lot->ebc->has_flights)
    TS_TRY(lot->output->scratch(lf));
done:
  return err;
}

static ts_err reserve_messages(ts_flight *fl) {
  ts_err err = TS_OK;
  const ts_ebc *ebc = fl->ebc;
  int64_t send = 0, recv = 0, n_bags = 0;
  for (int r = 0; r < ebc->n_ranks; r++) {
    send += ts_expect_message(ebc, r);
    recv += ts_room_bytes(ts_expect_message(ebc, ebc->rank));
  }
  TS_TRY(ts_buffer_reserve(&fl->send, (size_t)send));
  TS_TRY(ts_buffer_reserve(&fl->exchange.recv, (size_t)recv));
  for (int32_t l = 0; l < ebc->n_lots; l++)
    for (int32_t g = 0; g < ebc->lots[l].n_groups; g++)
      n_bags += ts_expect_group(&ebc->lots[l], &ebc->lots[l].groups[g]).n_bags;
  TS_TRY(ts_input_reserve(fl, ts_input_parts(fl, n_bags),
                          ts_routes_here(ebc) ? recv : 0));
done:
  return err;
}

/* As if no batch had been. */
static void forget(ts_flight *fl) {
  const ts_ebc *ebc = fl->ebc;
  memset(fl->batch, 0, (size_t)ebc->n_ranks * sizeof *fl->batch);
  for (int32_t f = 0; f < ebc->n_features; f++)
    fl->bags[f] = (ts_bags){.store = fl->bags[f].store};
}

ts_err ts_flight_expect(ts_flight *fl) {
  ts_err err = TS_OK;
  TS_TRY(join(fl));
  for (int r = 0; r < fl->ebc->n_ranks; r++) fl->batch[r] = fl->batch_max;
  TS_TRY(ts_bags_expect(fl));
  TS_TRY(ts_send_expect(fl));
  for (int32_t l = 0; l < fl->ebc->n_lots; l++)
    TS_TRY(reserve_lot(&fl->lots[l]));
  TS_TRY(reserve_messages(fl));
  TS_TRY(ts_pool_start(&fl->pool));
  fl->ebc->has_flights = true;
  forget(fl);
done:
  return err;
}
