/* fully_sharded_copy.c - rows of parameters from shards into flats, from those
 * into wholes, and of gradients from wholes into inputs: pieces by parameter
 * and rank, many in a call of the kernel. */
#include "dense/fully_sharded.h"

typedef struct ts_fully_sharded_copy {
  const ts_kernels *kernels;
  const ts_fully_sharded_group *g;
  float *whole;
  float *parts; /* (n_ranks, part_n): flat or input */
  int64_t part_n;
  int n_ranks;
  bool out;          /* from the flat into the whole */
  ts_flat_copy kept; /* beside it, unless 0 */
} ts_fully_sharded_copy;

static ts_err flush(const ts_fully_sharded_copy *c, ts_copies_args *a) {
  const ts_err err = a->n_pieces ? c->kernels->copies(a) : TS_OK;
  a->n_pieces = 0;
  return err;
}

static ts_err add(const ts_fully_sharded_copy *c, ts_copies_args *a,
                  ts_flat_copy piece) {
  if (piece.n <= 0) return TS_OK;
  a->piece[a->n_pieces++] = piece;
  return a->n_pieces == TS_COPY_PIECES ? flush(c, a) : TS_OK;
}

/* Rank R's rows of a part; padding stays as it is. */
static ts_flat_copy piece_of(const ts_fully_sharded_copy *c,
                             const ts_fully_sharded_part *p, int r) {
  const int64_t row0 = r * p->chunk, left = p->param->rows - row0;
  float *whole = c->whole + p->whole_at + row0 * p->width;
  float *part = c->parts + r * c->part_n + (c->out ? p->flat_at : p->shard_at);
  return (ts_flat_copy){.to = c->out ? whole : part,
                        .from = c->out ? part : whole,
                        .n = (left < p->chunk ? left : p->chunk) * p->width,
                        .kind =
                            c->out && p->half ? TS_COPY_WIDEN : TS_COPY_F32};
}

static ts_err copy_task(void *arg, ts_lane *lane) {
  (void)lane;
  const ts_fully_sharded_copy *c = arg;
  ts_copies_args a;
  a.n_pieces = 0;
  for (int32_t k = 0; k < c->g->n_parts; k++)
    for (int r = 0; r < c->n_ranks; r++)
      TS_DO(add(c, &a, piece_of(c, &c->g->parts[k], r)));
  TS_DO(add(c, &a, c->kept));
  return flush(c, &a);
}

ts_err ts_fully_sharded_copy_out(const ts_fully_sharded *d,
                                 const ts_fully_sharded_group *g,
                                 const float *flat, float *whole,
                                 ts_flat_copy kept, ts_lane *lane) {
  const ts_fully_sharded_copy c = {.kernels = d->kernels,
                                   .g = g,
                                   .whole = whole,
                                   .parts = (float *)(uintptr_t)flat,
                                   .part_n = g->flat_n,
                                   .n_ranks = d->n_ranks,
                                   .out = true,
                                   .kept = kept};
  return ts_lane_run(lane, "copy-out", copy_task, c);
}

ts_err ts_fully_sharded_copy_in(const ts_fully_sharded *d,
                                const ts_fully_sharded_group *g,
                                const float *whole, float *input,
                                ts_lane *lane) {
  const ts_fully_sharded_copy c = {.kernels = d->kernels,
                                   .g = g,
                                   .whole = (float *)(uintptr_t)whole,
                                   .parts = input,
                                   .part_n = g->shard_n,
                                   .n_ranks = d->n_ranks};
  return ts_lane_run(lane, "copy-in", copy_task, c);
}

static ts_err shorten_task(void *arg, ts_lane *lane) {
  (void)lane;
  const ts_fully_sharded_copy *c = arg;
  ts_copies_args a;
  a.n_pieces = 0;
  for (int32_t k = 0; k < c->g->n_parts; k++) {
    const ts_fully_sharded_part *p = &c->g->parts[k];
    TS_DO(add(c, &a,
              (ts_flat_copy){c->parts + p->flat_at, p->w, p->n_rows * p->width,
                             p->half ? TS_COPY_SHORTEN : TS_COPY_F32}));
  }
  return flush(c, &a);
}

ts_err ts_fully_sharded_shorten(const ts_fully_sharded *d,
                                const ts_fully_sharded_group *g, float *flat,
                                ts_lane *lane) {
  const ts_fully_sharded_copy c = {
      .kernels = d->kernels, .g = g, .parts = flat + d->rank * g->flat_n};
  return ts_lane_run(lane, "shorten weights", shorten_task, c);
}
