/* table_wise.c - each table whole on one rank.
 *
 * Pooled embeddings travel by all-to-all: a group writes (global batch, own
 * width), whose rows are already in the order of the ranks that own the
 * samples; block p of what arrives is (B, width of rank p). */
#include "base/mem.h"
#include "shard/sharding.h"

static ts_err place(ts_table_plan *p, const ts_table_config *t,
                    const ts_placement *at) {
  ts_err err = TS_OK;
  int rank;
  if (t->ranks.n > 1)
    TS_THROW(TS_ERR_DECK,
             "table %s: table_wise takes one rank in `ranks`, not %d", t->name,
             t->ranks.n);
  if (t->ranks.n)
    rank = (int)t->ranks.item[0];
  else
    TS_TRY(ts_place_pick(&rank, 1, at->nodes->member, at->nodes->n_ranks, at));
  TS_TRY(ts_place_rows(p, t, &rank, 1, 0, t->dim));
done:
  return err;
}

static ts_err layout(ts_lot *lot) {
  ts_err err = TS_OK;
  const ts_ebc *ebc = lot->ebc;
  lot->n_blocks = ebc->n_ranks;
  TS_TRY(ts_mem_array(&lot->block_width, lot->n_blocks,
                      sizeof *lot->block_width, TS_TAG_MISC));
  for (int32_t i = 0; i < lot->n_features; i++) {
    ts_lot_feature *f = &lot->features[i];
    f->block = ebc->plan->tables[f->table].shards[0].rank;
    f->col = lot->block_width[f->block];
    lot->block_width[f->block] += f->dim;
    lot->width += f->dim;
  }
  lot->own_width = lot->block_width[ebc->rank];
done:
  return err;
}

static void resize(ts_lot_flight *lf) {
  const ts_lot *lot = lf->lot;
  const ts_flight *fl = lf->flight;
  for (int r = 0; r < lot->ebc->n_ranks; r++) {
    lf->send[r] = (int64_t)fl->batch[r] * lot->own_width * 4;
    lf->recv[r] = (int64_t)fl->n * lot->block_width[r] * 4;
  }
}

static ts_err forward_begin(ts_lot_flight *lf, ts_lane *lane) {
  if (!lf->lot->comm) return TS_OK;
  return ts_comm_all_to_all_v(lf->lot->comm, &lf->token, lf->emb.ptr, lf->recv,
                              lf->out.ptr, lf->send, lane);
}

static ts_err forward_end(ts_lot_flight *lf, ts_lane *lane) {
  return lf->lot->comm ? ts_comm_end(&lf->token, lane) : TS_OK;
}

static ts_err backward_begin(ts_lot_flight *lf, ts_lane *lane) {
  if (!lf->lot->comm) return TS_OK;
  return ts_comm_all_to_all_v(lf->lot->comm, &lf->token, lf->grad_out.ptr,
                              lf->send, lf->grad.ptr, lf->recv, lane);
}

extern const ts_sharding_ops ts_sharding_table_wise;
const ts_sharding_ops ts_sharding_table_wise = {
    .name = "table_wise",
    .kind = TS_SHARD_TABLE_WISE,
    .remote = true,
    .bucketize = false,
    .place = place,
    .layout = layout,
    .resize = resize,
    .forward_begin = forward_begin,
    .forward_end = forward_end,
    .backward_begin = backward_begin,
    .backward_end = ts_lot_backward_end,
};
