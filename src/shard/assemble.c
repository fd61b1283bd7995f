/* assemble.c - views that are not seen where they arrived: columns of a row
 * are put side by side, distinct bags are handed to every sample that has
 * them, and means over row shards are divided by the whole bag's length.  On
 * the way back gradients of equal bags are added, in the order of the
 * samples. */
#include <string.h>

#include "shard/flight.h"

/* Bag, within piece P, of row B of its view; -1: in another piece. */
static int64_t bag_of(const ts_bags *bags, const ts_piece *p, int32_t b) {
  const int64_t bag = bags->inverse ? bags->inverse[b] : b;
  if (!bags->part) return bag;
  const int64_t from = bags->part[p->part], to = bags->part[p->part + 1];
  return bag >= from && bag < to ? bag - from : -1;
}

/* Floats from bag to bag of a piece. */
static int64_t step_of(const ts_lot *lot, const ts_piece *p) {
  return p->col < 0 ? p->n_cols : lot->block_width[p->block];
}

static void gather_piece(const ts_lot_flight *lf, int32_t i) {
  const ts_lot *lot = lf->lot;
  const ts_piece *p = &lot->pieces[i];
  const ts_view *v = &lot->views[p->view];
  const ts_bags *bags = &lf->flight->bags[p->feature];
  const float *from = (const float *)lf->emb.ptr + lf->piece_at[i];
  float *to = lf->emb_ptr[p->view] + p->col0;
  const int64_t step = step_of(lot, p);
#pragma omp parallel for schedule(static)
  for (int32_t b = 0; b < bags->n_out; b++) {
    const int64_t bag = bag_of(bags, p, b);
    if (bag >= 0)
      memcpy(to + (int64_t)b * v->dim, from + bag * step,
             (size_t)p->n_cols * 4);
  }
}

/* Adds or copies: the first row of each bag sets it. */
static void scatter_piece(const ts_lot_flight *lf, int32_t i) {
  const ts_lot *lot = lf->lot;
  const ts_piece *p = &lot->pieces[i];
  const ts_view *v = &lot->views[p->view];
  const ts_bags *bags = &lf->flight->bags[p->feature];
  const float *from = lf->emb_ptr[p->view] + p->col0;
  float *to = (float *)lf->emb.ptr + lf->piece_at[i];
  const int64_t step = step_of(lot, p);
  if (p->col < 0)
    memset(to, 0,
           (size_t)lf->count[(int64_t)lot->ebc->rank * lot->n_pieces + i] *
               (size_t)p->n_cols * 4);
  for (int32_t b = 0; b < bags->n_out; b++) {
    const int64_t bag = bag_of(bags, p, b);
    if (bag < 0) continue;
    float *x = to + bag * step;
    const float *g = from + (int64_t)b * v->dim;
    if (p->col >= 0)
      memcpy(x, g, (size_t)p->n_cols * 4);
    else
      for (int32_t d = 0; d < p->n_cols; d++) x[d] += g[d];
  }
}

/* Rows of means times 1 / bag length: embeddings or gradients. */
static void scale_view(const ts_lot_flight *lf, int32_t i, float *x) {
  const ts_view *v = &lf->lot->views[i];
  const float *inverse = lf->inverse + (int64_t)i * lf->flight->batch_max;
  if (!v->mean) return;
  for (int32_t b = 0; b < lf->flight->n; b++)
    for (int32_t d = 0; d < v->dim; d++) x[b * lf->stride[i] + d] *= inverse[b];
}

static ts_err assemble_task(void *arg, ts_lane *lane) {
  (void)lane;
  const ts_lot_flight *lf = *(ts_lot_flight **)arg;
  const ts_lot *lot = lf->lot;
  for (int32_t p = 0; p < lot->n_pieces; p++)
    if (lot->views[lot->pieces[p].view].assembled) gather_piece(lf, p);
  for (int32_t i = 0; i < lot->n_views; i++) scale_view(lf, i, lf->emb_ptr[i]);
  return TS_OK;
}

static ts_err disassemble_task(void *arg, ts_lane *lane) {
  (void)lane;
  const ts_lot_flight *lf = *(ts_lot_flight **)arg;
  const ts_lot *lot = lf->lot;
  for (int32_t i = 0; i < lot->n_views; i++) scale_view(lf, i, lf->emb_ptr[i]);
  for (int32_t p = 0; p < lot->n_pieces; p++)
    if (lot->views[lot->pieces[p].view].assembled) scatter_piece(lf, p);
  return TS_OK;
}

static bool has_work(const ts_lot *lot) {
  for (int32_t i = 0; i < lot->n_views; i++)
    if (lot->views[i].assembled || lot->views[i].mean) return true;
  return false;
}

ts_err ts_lot_assemble(ts_lot_flight *lf, ts_lane *lane) {
  if (!has_work(lf->lot)) return TS_OK;
  return ts_lane_submit(lane, "assemble", assemble_task, &lf, sizeof lf);
}

ts_err ts_lot_disassemble(ts_lot_flight *lf, ts_lane *lane) {
  if (!has_work(lf->lot)) return TS_OK;
  return ts_lane_submit(lane, "disassemble", disassemble_task, &lf, sizeof lf);
}
