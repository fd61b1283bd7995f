/* row_wise.c - each table cut by rows over the ranks.
 *
 * The ids of a bag go to the ranks that hold their rows; each rank pools what
 * it has of every sample of the global batch, and a reduce-scatter (in rank
 * order) sums the parts and gives each rank its own samples.  Means divide
 * by the whole bag's length, so that happens here, after the sum; and before
 * the gradients are gathered on the way back. */
#include "base/mem.h"
#include "shard/sharding.h"

static ts_err place(ts_table_plan *p, const ts_table_config *t,
                    const ts_placement *at) {
  ts_err err = TS_OK;
  const int n = t->ranks.n ? t->ranks.n : at->nodes->n_ranks;
  int *ranks = NULL;
  TS_TRY(ts_place_once(t));
  TS_TRY(ts_mem_array(&ranks, n, sizeof *ranks, TS_TAG_MISC));
  for (int k = 0; k < n; k++) ranks[k] = t->ranks.n ? (int)t->ranks.item[k] : k;
  TS_TRY(ts_place_rows(p, t, ranks, n, 0, t->dim));
done:
  ts_mem_free(ranks);
  return err;
}

static void resize(ts_lot_flight *lf) {
  for (int r = 0; r < lf->lot->ebc->n_ranks; r++) {
    lf->send[r] = (int64_t)lf->flight->batch[r] * lf->lot->width;
    lf->recv[r] = lf->send[r] * 4;
  }
}

/* Rows of features with mean pooling times 1 / bag length: of the embeddings
 * or of their gradients. */
typedef struct ts_scale_arg {
  ts_lot_flight *lf;
  bool backward;
} ts_scale_arg;

static ts_err scale_means(void *p, ts_lane *lane) {
  (void)lane;
  const ts_scale_arg *a = p;
  const ts_lot *lot = a->lf->lot;
  const int32_t n = a->lf->flight->n;
  float *base = a->backward ? a->lf->grad.ptr : a->lf->emb.ptr;
  for (int32_t i = 0; i < lot->n_features; i++) {
    const ts_lot_feature *f = &lot->features[i];
    if (!f->mean) continue;
    const float *inverse =
        a->lf->inverse + (int64_t)i * a->lf->flight->batch_max;
    for (int32_t b = 0; b < n; b++) {
      float *x = base + (int64_t)b * lot->width + f->col;
      for (int32_t d = 0; d < f->dim; d++) x[d] *= inverse[b];
    }
  }
  return TS_OK;
}

static bool any_mean(const ts_lot *lot) {
  for (int32_t i = 0; i < lot->n_features; i++)
    if (lot->features[i].mean) return true;
  return false;
}

static ts_err scale(ts_lot_flight *lf, bool backward, ts_lane *lane) {
  if (!any_mean(lf->lot)) return TS_OK;
  ts_scale_arg arg = {lf, backward};
  return ts_lane_submit(lane, "mean", scale_means, &arg, sizeof arg);
}

static ts_err forward_begin(ts_lot_flight *lf, ts_lane *lane) {
  if (!lf->lot->comm) return TS_OK;
  return ts_comm_reduce_scatter_v(lf->lot->comm, &lf->token, lf->emb.ptr,
                                  lf->out.ptr, lf->send, TS_F32, lane);
}

static ts_err forward_end(ts_lot_flight *lf, ts_lane *lane) {
  ts_err err = TS_OK;
  if (lf->lot->comm) TS_TRY(ts_comm_end(&lf->token, lane));
  TS_TRY(scale(lf, false, lane));
done:
  return err;
}

static ts_err backward_begin(ts_lot_flight *lf, ts_lane *lane) {
  ts_err err = TS_OK;
  TS_TRY(scale(lf, true, lane));
  if (lf->lot->comm)
    TS_TRY(ts_comm_all_gather_v(lf->lot->comm, &lf->token, lf->grad_out.ptr,
                                lf->grad.ptr, lf->recv, lane));
done:
  return err;
}

extern const ts_sharding_ops ts_sharding_row_wise;
const ts_sharding_ops ts_sharding_row_wise = {
    .name = "row_wise",
    .kind = TS_SHARD_ROW_WISE,
    .remote = true,
    .bucketize = true,
    .place = place,
    .layout = ts_lot_layout_whole,
    .resize = resize,
    .forward_begin = forward_begin,
    .forward_end = forward_end,
    .backward_begin = backward_begin,
    .backward_end = ts_lot_backward_end,
};
