/* full_softmax.c - the loss over all items: products by blocks, and what ranks
 * tell each other. */
#include "model/full_softmax.h"

#include <string.h>

#include "base/mem.h"
#include "model/room.h"

/* Scores of a block, at most, where a row has no more; and its rows. */
enum { BLOCK_SCORES = 1 << 22, BLOCK_ROWS = 1024 };

ts_err ts_full_softmax_create(ts_full_softmax *x, ts_layer *l, bool in_batch) {
  x->in_batch = in_batch;
  ts_world *world = l->spec->world;
  x->n_ranks = world ? ts_world_size(world) : 1;
  x->rank = world ? ts_world_rank(world) : 0;
  x->room = ts_room_of(l->device);
  TS_DO(ts_mem_many(x->n_targets, x->n_ranks, ACTIVATIONS));
  TS_DO(ts_mem_many(x->bytes, x->n_ranks, ACTIVATIONS));
  TS_DO(ts_mem_many(x->mine, x->n_ranks, ACTIVATIONS));
  return ts_layer_comm(l, &x->comm);
}

void ts_full_softmax_reset(ts_full_softmax *x) {
  if (x->room.device) ts_buffer_reset(&x->room);
  ts_mem_free_all(x->n_targets, x->bytes, x->mine);
  *x = (ts_full_softmax){0};
}

/* For a batch of a->n_targets, n_all, a->n_columns and N_IDS. */
static ts_err make_room(ts_full_softmax *x, const ts_layer *l, int64_t n_ids,
                        ts_lane *lane) {
  ts_full_softmax_args *a = &x->a;
  const int64_t d = a->dim, all = x->n_all, n = a->n_columns;
  const bool trains = l->spec->training;
  int64_t rows = BLOCK_SCORES / (n > 0 ? n : 1);
  rows = rows < 16 ? 16 : rows > BLOCK_ROWS ? BLOCK_ROWS : rows;
  x->block = rows < all ? rows : all;
  const ts_room_part parts[] = {
      {&x->queries, all * d, 4},
      {&a->columns, n * d, 4},
      {&x->turned, n * d, 4},
      {&a->what, n_ids, 4},
      {&a->wanted, a->n_targets, 4},
      {&a->wanted_row, a->n_targets, 4},
      {&x->ids, x->in_batch ? all : 0, 8},
      {&a->column_shift, x->in_batch ? n : 0, 4},
      {&x->part, 2 * all, 4},
      {&x->parts, 2 * a->n_targets * x->n_ranks, 4},
      {&x->factor, 2 * all, 4},
      {&a->s, x->block * n, 4},
      {&x->dqueries, trains ? all * d : 0, 4},
      {&x->dtargets, trains ? a->n_targets * d : 0, 4},
      {&x->dcolumns, trains ? n * d : 0, 4},
  };
  return ts_room_take(&x->room, parts, sizeof parts / sizeof *parts, lane);
}

/* Those that memory is for. */
static int ranks_of(const ts_layer *l) {
  const ts_model_spec *s = l->spec;
  return s->world ? ts_world_size(s->world) : s->n_ranks > 0 ? s->n_ranks : 1;
}

int64_t ts_full_softmax_part(const ts_layer *l, int64_t n_items) {
  return (n_items + ranks_of(l) - 1) / ranks_of(l);
}

ts_err ts_full_softmax_expect(ts_full_softmax *x, const ts_layer *l,
                              int32_t dim, int64_t n_targets, int64_t n_columns,
                              ts_lane *lane) {
  x->a.dim = dim;
  x->a.n_targets = n_targets;
  x->a.n_columns = n_columns;
  x->n_all = n_targets * ranks_of(l);
  TS_DO(make_room(x, l, n_targets + x->a.n_columns, lane));
  x->a = (ts_full_softmax_args){0}; /* no batch yet */
  x->n_all = 0;
  return TS_OK;
}

/* ---- between ranks ------------------------------------------------------- */

static int64_t *bytes_of(ts_full_softmax *x, int64_t unit) {
  for (int r = 0; r < x->n_ranks; r++) x->bytes[r] = unit * x->n_targets[r];
  return x->bytes;
}

/* AT (all targets, N bytes), of which this rank has written its own. */
static ts_err gather(ts_full_softmax *x, const ts_layer_run *r, void *at,
                     int64_t n) {
  ts_token token;
  if (!x->comm) return TS_OK;
  TS_DO(ts_comm_all_gather_v(x->comm, &token, at, (char *)at + x->first * n,
                             bytes_of(x, n), r->lane));
  return ts_comm_end(&token, r->lane);
}

/* The parts of this rank's targets, from all ranks. */
static ts_err exchange_parts(ts_full_softmax *x, const ts_layer_run *r) {
  ts_token token;
  if (!x->comm)
    return ts_lane_copy(r->lane, x->parts, x->part, 8 * (size_t)x->n_all);
  for (int k = 0; k < x->n_ranks; k++) x->mine[k] = 8 * x->a.n_targets;
  TS_DO(ts_comm_all_to_all_v(x->comm, &token, x->parts, x->mine, x->part,
                             bytes_of(x, 8), r->lane));
  return ts_comm_end(&token, r->lane);
}

static ts_err add_queries(ts_full_softmax *x, const ts_layer_run *r) {
  ts_token token;
  const int64_t d = x->a.dim;
  if (!x->comm)
    return ts_lane_copy(r->lane, x->dtargets, x->dqueries,
                        4 * (size_t)(x->n_all * d));
  TS_DO(ts_comm_reduce_scatter_v(x->comm, &token, x->dtargets, x->dqueries,
                                 bytes_of(x, d), TS_F32, r->lane));
  return ts_comm_end(&token, r->lane);
}

/* ---- blocks -------------------------------------------------------------- */

/* The columns as products of many queries read them. */
static ts_err turn(ts_full_softmax *x, const ts_layer *l,
                   const ts_layer_run *r) {
  const ts_full_softmax_args *a = &x->a;
  const int32_t n = (int32_t)a->n_columns;
  if (!n) return TS_OK;
  return ts_run_times(l, r, x->turned, (ts_stride4){0, 0, n, 1}, a->columns,
                      (ts_stride4){0, 0, 1, a->dim}, NULL, (ts_stride4){0},
                      (ts_sizes){.b = 1, .h = 1, .i = a->dim, .j = n, .k = 1},
                      1, false);
}

/* Rows from I on, N of them: their scores with the rank's columns. */
static ts_err score(ts_full_softmax *x, const ts_layer *l,
                    const ts_layer_run *r, int64_t i, int64_t n) {
  const ts_full_softmax_args *a = &x->a;
  const ts_stride4 wide = {0, 0, a->n_columns, 1}, row = {0, 0, a->dim, 1};
  return ts_run_products(l, r, a->s, wide, x->queries + i * a->dim, row,
                         x->turned, (ts_stride4){0, 0, 1, a->n_columns},
                         (ts_sizes){.b = 1,
                                    .h = 1,
                                    .i = (int32_t)n,
                                    .j = (int32_t)a->n_columns,
                                    .k = a->dim},
                         a->scale, false);
}

/* Their gradients, and what they add to the columns'. */
static ts_err score_grads(ts_full_softmax *x, const ts_layer *l,
                          const ts_layer_run *r, int64_t i, int64_t n) {
  const ts_full_softmax_args *a = &x->a;
  const int32_t d = a->dim, wide = (int32_t)a->n_columns;
  const ts_stride4 s = {0, 0, wide, 1}, turned = {0, 0, 1, wide};
  const ts_stride4 row = {0, 0, d, 1}, column = {0, 0, 1, d};
  TS_DO(ts_run_products(
      l, r, x->dqueries + i * d, row, a->s, s, a->columns, column,
      (ts_sizes){.b = 1, .h = 1, .i = (int32_t)n, .j = d, .k = wide}, 1,
      false));
  return ts_run_products(
      l, r, x->dcolumns, row, a->s, turned, x->queries + i * d, column,
      (ts_sizes){.b = 1, .h = 1, .i = wide, .j = d, .k = n}, 1, i > 0);
}

typedef ts_err (*on_block)(ts_full_softmax *, const ts_layer *,
                           const ts_layer_run *, int64_t i, int64_t n);

/* The rows of all ranks, a block at a time: scored, then ONE of it. */
static ts_err each_block(ts_full_softmax *x, const ts_layer *l,
                         const ts_layer_run *r, on_block one) {
  for (int64_t i = 0; i < x->n_all; i += x->block) {
    const int64_t n = x->n_all - i < x->block ? x->n_all - i : x->block;
    if (x->a.n_columns) TS_DO(score(x, l, r, i, n));
    x->a.n_block = n;
    x->a.row_ids = x->in_batch ? x->ids + i : NULL;
    x->a.own = i - x->first;
    TS_DO(one(x, l, r, i, n));
  }
  return TS_OK;
}

static ts_err block_forward(ts_full_softmax *x, const ts_layer *l,
                            const ts_layer_run *r, int64_t i, int64_t n) {
  (void)n;
  x->a.part = x->part + 2 * i;
  return ts_run_full_softmax_part(l, r, &x->a);
}

static ts_err block_backward(ts_full_softmax *x, const ts_layer *l,
                             const ts_layer_run *r, int64_t i, int64_t n) {
  x->a.factor = x->factor + 2 * i;
  TS_DO(ts_run_full_softmax_slopes(l, r, &x->a));
  return score_grads(x, l, r, i, n);
}

/* ---- passes -------------------------------------------------------------- */

static ts_err begin(ts_full_softmax *x, const ts_layer *l,
                    const ts_layer_run *r) {
  ts_full_softmax_args *a = &x->a;
  a->n_columns =
      x->in_batch ? a->n_targets : ts_slices_before(a->slices, a->n_samples);
  a->n_parts = x->n_ranks;
  x->n_all = x->first = 0;
  for (int k = 0; k < x->n_ranks; k++) {
    x->n_targets[k] = !r->pass->n_targets ? k == x->rank ? a->n_targets : 0
                                          : r->pass->n_targets[k];
    if (k == x->rank) x->first = x->n_all;
    x->n_all += x->n_targets[k];
  }
  TS_DO(make_room(x, l, a->n_targets + a->n_columns, r->lane));
  a->targets = x->queries + x->first * a->dim;
  a->target_ids = x->in_batch ? x->ids + x->first : NULL;
  a->parts = x->parts;
  a->dtargets = x->dtargets;
  a->dcolumns = x->dcolumns;
  return TS_OK;
}

ts_err ts_full_softmax_forward(ts_full_softmax *x, const ts_layer *l,
                               const ts_layer_run *r,
                               const ts_candidates_args *c) {
  ts_full_softmax_args *a = &x->a;
  *a = (ts_full_softmax_args){.q = c->q,
                              .items = c->items,
                              .ids = c->ids,
                              .shift = c->shift,
                              .index = c->index,
                              .row = c->row,
                              .sample = c->sample,
                              .first = c->first,
                              .offsets = c->offsets,
                              .member_start = c->member_start,
                              .member = c->member,
                              .slices = r->pass->slices,
                              .loss = c->loss,
                              .n_samples = r->batch,
                              .n_rows = c->n_rows,
                              .n_items = c->n_items,
                              .n_targets = c->n_targets,
                              .q_stride = c->q_stride,
                              .item_stride = c->item_stride,
                              .dim = c->dim,
                              .scale = c->scale};
  TS_DO(begin(x, l, r));
  TS_DO(ts_run_full_softmax_take(l, r, a));
  TS_DO(turn(x, l, r));
  TS_DO(gather(x, r, x->queries, 4 * a->dim));
  if (x->in_batch) TS_DO(gather(x, r, x->ids, 8));
  TS_DO(each_block(x, l, r, block_forward));
  TS_DO(exchange_parts(x, r));
  a->factor = x->factor + 2 * x->first;
  return ts_run_full_softmax_loss(l, r, a);
}

ts_err ts_full_softmax_backward(ts_full_softmax *x, const ts_layer *l,
                                const ts_layer_run *r, const float *by,
                                int64_t by_stride, float *dq, float *ditems) {
  ts_full_softmax_args *a = &x->a;
  a->by = by;
  a->by_stride = by_stride;
  a->dq = dq;
  a->ditems = ditems;
  a->factor = x->factor + 2 * x->first;
  TS_DO(ts_run_full_softmax_factor(l, r, a));
  TS_DO(gather(x, r, x->factor, 8));
  if (!x->n_all)
    TS_DO(ts_run_zero(l, r, x->dcolumns, 4 * (size_t)(a->n_columns * a->dim)));
  TS_DO(each_block(x, l, r, block_backward));
  TS_DO(add_queries(x, r));
  a->factor = x->factor + 2 * x->first;
  return ts_run_full_softmax_give(l, r, a);
}
