/* geometry.c - where every piece of a sharding lies in this batch.
 *
 * A rank writes a section for each rank, in the order that the output dist
 * asks for, and receives a block from each source.  The section for rank q and
 * the block that q receives are the same bytes:
 *
 *     (batch of q, block_width)  pieces side by side, a row per sample
 *     (bags of q, n_cols)        of each variable piece, one after the other
 */
#include <string.h>

#include "base/mem.h"
#include "shard/ebc_batch.h"

/* Bags of RANK's part of piece P. */
static int32_t *count_of(const ts_sharding_batch *lf, int rank, int32_t p) {
  return &lf->count[(int64_t)rank * lf->sharding->n_pieces + p];
}

/* Sequences cut by rows have bags per shard: ours where we own the ids, and
 * what arrived where we own the rows. */
static int32_t split_count(const ts_sharding_batch *lf, int rank, int32_t p) {
  const ts_sharding *sharding = lf->sharding;
  const ts_piece *piece = &sharding->pieces[p];
  const ts_bags *bags = &lf->ebc_batch->bags[piece->feature];
  if (rank == sharding->ebc->rank)
    return bags->n ? bags->part[piece->part + 1] - bags->part[piece->part] : 0;
  return *count_of(lf, rank, p); /* input_unpack.c has set it */
}

static void count_bags(ts_sharding_batch *lf) {
  const ts_sharding *sharding = lf->sharding;
  const ts_ebc_batch *fl = lf->ebc_batch;
  const ts_ebc *ebc = sharding->ebc;
  for (int r = 0; r < ebc->n_ranks; r++)
    for (int32_t p = 0; p < sharding->n_pieces; p++) {
      const ts_view *v = &sharding->views[sharding->pieces[p].view];
      *count_of(lf, r, p) =
          v->variable < 0 ? fl->batch[r]
          : sharding->sequence && sharding->ops->split_rows
              ? split_count(lf, r, p)
              : fl->variable[(int64_t)r * ebc->n_variable + v->variable];
    }
}

int64_t ts_sharding_block_floats(const ts_sharding_batch *lf, int block,
                                 int rank) {
  const ts_sharding *sharding = lf->sharding;
  int64_t n =
      (int64_t)lf->ebc_batch->batch[rank] * sharding->block_width[block];
  for (int32_t p = 0; p < sharding->n_pieces; p++)
    if (sharding->pieces[p].block == block && sharding->pieces[p].col < 0)
      n += (int64_t)*count_of(lf, rank, p) * sharding->pieces[p].n_cols;
  return n;
}

/* Starts of BLOCK's pieces in what begins at AT and belongs to RANK. */
static void place_pieces(const ts_sharding_batch *lf, int block, int rank,
                         int64_t at, int64_t *to, int64_t step) {
  const ts_sharding *sharding = lf->sharding;
  int64_t next =
      at + (int64_t)lf->ebc_batch->batch[rank] * sharding->block_width[block];
  for (int32_t p = 0; p < sharding->n_pieces; p++) {
    const ts_piece *piece = &sharding->pieces[p];
    if (piece->block != block) continue;
    to[p * step] = piece->col < 0 ? next : at + piece->col;
    if (piece->col < 0) next += (int64_t)*count_of(lf, rank, p) * piece->n_cols;
  }
}

static void place_sections(ts_sharding_batch *lf) {
  const ts_sharding *sharding = lf->sharding;
  const int n_ranks = sharding->ebc->n_ranks;
  int order[n_ranks];
  int64_t at = 0;
  for (int r = 0; r < n_ranks; r++) order[r] = r;
  if (sharding->output->order) sharding->output->order(sharding, order);
  for (int i = 0; i < n_ranks; i++) {
    const int r = order[i];
    const bool mine =
        sharding->output != &ts_output_local || r == sharding->ebc->rank;
    lf->section[r] = at;
    lf->sizes[r] =
        mine ? ts_sharding_block_floats(lf, sharding->own_block, r) : 0;
    place_pieces(lf, sharding->own_block, r, at, lf->write_at + r, n_ranks);
    at += lf->sizes[r];
  }
  lf->n_written = at;
}

static void place_blocks(ts_sharding_batch *lf) {
  const ts_sharding *sharding = lf->sharding;
  const int me = sharding->ebc->rank;
  int64_t at = 0;
  for (int k = 0; k < sharding->n_blocks; k++) {
    lf->block_at[k] = at;
    place_pieces(lf, k, me, at, lf->piece_at, 1);
    at += ts_sharding_block_floats(lf, k, me);
  }
  lf->block_at[sharding->n_blocks] = at;
}

/* Floats of the assembled views. */
static int64_t assembled_floats(const ts_sharding_batch *lf) {
  int64_t n = 0;
  for (int32_t i = 0; i < lf->sharding->n_views; i++) {
    const ts_view *v = &lf->sharding->views[i];
    if (v->assembled)
      n += (int64_t)lf->ebc_batch->bags[v->feature].n_out * v->dim;
  }
  return n;
}

ts_err ts_sharding_reserve_wire(ts_sharding_batch *lf) {
  int64_t send = 0, recv = 0;
  for (int r = 0; r < lf->sharding->ebc->n_ranks; r++) {
    send += lf->send[r];
    recv += lf->recv[r];
  }
  const size_t most = (size_t)(send > recv ? send : recv);
  TS_DO(ts_buffer_reserve(&lf->wire_send, most));
  return ts_buffer_reserve(&lf->wire_recv, most);
}

ts_err ts_sharding_measure(ts_sharding_batch *lf) {
  count_bags(lf);
  place_sections(lf);
  place_blocks(lf);
  const size_t written = (size_t)lf->n_written * 4;
  const size_t arrives = (size_t)lf->block_at[lf->sharding->n_blocks] * 4;
  const size_t views = (size_t)assembled_floats(lf) * 4;
  TS_DO(ts_buffer_reserve(&lf->out, written));
  if (lf->sharding->output == &ts_output_local)
    /* The model reads the matrix that the groups write. */
    lf->emb = ts_buffer_wrap(lf->out.ptr, written, TS_SPACE_DEVICE);
  else
    TS_DO(ts_buffer_reserve(&lf->emb, arrives));
  if (lf->sharding->output->reserve) TS_DO(lf->sharding->output->reserve(lf));
  return ts_buffer_reserve(&lf->views, views);
}

void ts_sharding_point(ts_sharding_batch *lf) {
  const ts_sharding *sharding = lf->sharding;
  int64_t at = 0;
  for (int32_t p = 0; p < sharding->n_pieces; p++) {
    const ts_piece *piece = &sharding->pieces[p];
    if (sharding->views[piece->view].assembled) continue;
    lf->emb_ptr[piece->view] = (float *)lf->emb.ptr + lf->piece_at[p];
    lf->stride[piece->view] = sharding->block_width[piece->block];
  }
  for (int32_t i = 0; i < sharding->n_views; i++) {
    const ts_view *v = &sharding->views[i];
    if (!v->assembled) continue;
    lf->emb_ptr[i] = (float *)lf->views.ptr + at;
    lf->stride[i] = v->dim;
    at += (int64_t)lf->ebc_batch->bags[v->feature].n_out * v->dim;
  }
}
