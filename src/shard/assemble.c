/* assemble.c - views that are not seen where they arrived: columns of a row
 * are put side by side, distinct bags are handed to every sample that has
 * them, and means over row shards are divided by the whole bag's length.  On
 * the way back gradients of equal bags are added, in the order of the
 * samples. */
#include "shard/ebc_batch.h"
#include "shard/view_kernels.h"

/* The numbers of bags that piece P has, of those of its feature. */
static void numbers_of(const ts_bags *bags, const ts_piece *p, int32_t *first,
                       int32_t *count) {
  *first = bags->part ? bags->part[p->part] : 0;
  *count = (bags->part ? bags->part[p->part + 1] : bags->n) - *first;
}

/* Piece I as it arrived and the columns of its view that it is; BACK: the
 * view's gradients to those of what arrived. */
static ts_row_piece row_piece(const ts_sharding_batch *lf, int32_t i,
                              bool back) {
  const ts_sharding *sharding = lf->sharding;
  const ts_piece *p = &sharding->pieces[i];
  const ts_bags *bags = &lf->ebc_batch->bags[p->feature];
  const int32_t step = p->col < 0 ? p->n_cols : sharding->block_width[p->block];
  float *arrived = (float *)lf->emb.ptr + lf->piece_at[i];
  float *seen = lf->emb_ptr[p->view] + p->col0;
  ts_row_piece row = {.to = back ? arrived : seen,
                      .from = back ? seen : arrived,
                      .to_step = back ? step : sharding->views[p->view].dim,
                      .from_step = back ? sharding->views[p->view].dim : step,
                      .index = bags->inverse,
                      .member_start = bags->member_start,
                      .member = bags->member,
                      .n = bags->n_out,
                      .n_cols = p->n_cols};
  numbers_of(bags, p, &row.first, &row.count);
  return row;
}

/* The same way back of a piece whose rows are seen once each: a copy, too. */
static ts_row_piece own_piece(ts_row_piece row) {
  row.from += (int64_t)row.first * row.from_step;
  row.n = row.count;
  row.first = 0;
  return row;
}

/* Pieces for one kernel, which runs as soon as there are as many as it takes,
 * and at the end.  Zeroed first, as a GPU's launch takes all of it along and a
 * graph that is replayed compares what launches have. */
typedef struct ts_row_list {
  ts_err (*kernel)(const ts_row_args *);
  ts_row_args args;
} ts_row_list;

static ts_err flush(ts_row_list *l) {
  const ts_err err = l->args.n_pieces ? l->kernel(&l->args) : TS_OK;
  l->args.n_pieces = 0;
  return err;
}

static ts_err add(ts_row_list *l, const ts_row_piece *p) {
  l->args.piece[l->args.n_pieces++] = *p;
  return l->args.n_pieces == TS_ROW_PIECES ? flush(l) : TS_OK;
}

/* Gradients of distinct bags are sums; others have a place of their own. */
static ts_err move_pieces(const ts_sharding_batch *lf, bool back) {
  const ts_sharding *sharding = lf->sharding;
  ts_row_list copies = {.kernel = sharding->ebc->kernels->copy_rows};
  ts_row_list sums = {.kernel = sharding->ebc->kernels->sum_rows};
  for (int32_t i = 0; i < sharding->n_pieces; i++) {
    const ts_piece *p = &sharding->pieces[i];
    if (!sharding->views[p->view].assembled) continue;
    ts_row_piece row = row_piece(lf, i, back);
    const bool whole = back && p->col < 0;
    const bool once = whole && sharding->ebc->once[p->feature];
    if (once) row = own_piece(row);
    TS_DO(add(whole && !once ? &sums : &copies, &row));
  }
  TS_DO(flush(&copies));
  return flush(&sums);
}

/* Rows of means times 1 / bag length: embeddings or gradients. */
static ts_err scale_views(const ts_sharding_batch *lf) {
  const ts_sharding *sharding = lf->sharding;
  const ts_kernels *k = sharding->ebc->kernels;
  ts_scale_args a = {0};
  for (int32_t i = 0; i < sharding->n_views; i++) {
    if (!sharding->views[i].mean) continue;
    a.piece[a.n_pieces++] = (ts_scale_piece){
        .x = lf->emb_ptr[i],
        .by = lf->inverse + (int64_t)i * lf->ebc_batch->batch_max,
        .step = lf->stride[i],
        .n = lf->ebc_batch->n,
        .n_cols = sharding->views[i].dim};
    if (a.n_pieces < TS_SCALE_PIECES) continue;
    TS_DO(k->scale_rows(&a));
    a.n_pieces = 0;
  }
  if (a.n_pieces) TS_DO(k->scale_rows(&a));
  return TS_OK;
}

static ts_err assemble_task(void *arg, ts_lane *lane) {
  (void)lane;
  const ts_sharding_batch *lf = *(ts_sharding_batch **)arg;
  TS_DO(move_pieces(lf, false));
  return scale_views(lf);
}

static ts_err disassemble_task(void *arg, ts_lane *lane) {
  (void)lane;
  const ts_sharding_batch *lf = *(ts_sharding_batch **)arg;
  TS_DO(scale_views(lf));
  return move_pieces(lf, true);
}

static bool has_work(const ts_sharding *sharding) {
  for (int32_t i = 0; i < sharding->n_views; i++)
    if (sharding->views[i].assembled || sharding->views[i].mean) return true;
  return false;
}

ts_err ts_sharding_assemble(ts_sharding_batch *lf, ts_lane *lane) {
  if (!has_work(lf->sharding)) return TS_OK;
  return ts_lane_run(lane, "assemble", assemble_task, lf);
}

ts_err ts_sharding_disassemble(ts_sharding_batch *lf, ts_lane *lane) {
  if (!has_work(lf->sharding)) return TS_OK;
  return ts_lane_run(lane, "disassemble", disassemble_task, lf);
}
