/* lookup_ones.h - the lookup where every bag has one id, for each instruction
 * set.
 *
 * Outputs are strided by sample, so feature by feature every store has a page
 * and lines of its own.  Samples go in blocks, each with all its features
 * before the next: the outputs of a block are close together and stay in the
 * second cache until they are whole.  Outputs are asked for a few bags ahead
 * of their stores, rows across features and blocks. */
#pragma once

#include "sparse/lookup_body.h"

enum { ONES_BLOCK = 128, ONES_BYTES = 16384, STORE_AHEAD = 4 };

/* A walk over blocks [block, last), feature by feature: it stands at bag BAG of
 * feature F, whose part of the block ends before END. */
typedef struct ts_ones {
  const ts_lookup_args *a;
  int64_t block, last, n_blocks, row_bytes;
  int64_t bag, end;
  int32_t f;
  const char *table;
} ts_ones;

static inline int64_t ones_cut(const ts_ones *o, int64_t block) {
  const int64_t *start = o->a->bag_start + o->f;
  return start[0] + (start[1] - start[0]) * block / o->n_blocks;
}

/* The next feature with bags in the block, or the next block's first; FALSE
 * after the last. */
static inline bool ones_next(ts_ones *o) {
  while (o->bag == o->end) {
    if (++o->f >= o->a->n_features) o->f = 0, o->block++;
    if (o->block >= o->last) return false;
    o->bag = ones_cut(o, o->block), o->end = ones_cut(o, o->block + 1);
    o->table = (const char *)o->a->weight + o->a->row_base[o->f] * o->row_bytes;
  }
  return true;
}

/* Blocks for N threads, the same number for each. */
static inline int64_t ones_blocks(const ts_lookup_args *a, int n) {
  int64_t most = 0;
  for (int32_t f = 0; f < a->n_features; f++) {
    const int64_t bags = a->bag_start[f + 1] - a->bag_start[f];
    if (bags > most) most = bags;
  }
  return ((most + ONES_BLOCK - 1) / ONES_BLOCK + n - 1) / n * n;
}

/* Asks for the row of the walk's bag, and steps on. */
TS_BODY void ones_ask(ts_ones *o) {
  if (!ones_next(o)) return;
  const char *row = o->table + o->a->rows[o->bag++] * o->row_bytes;
  for (int64_t k = 0; k < o->row_bytes; k += 64)
    __builtin_prefetch(row + k, 0, 2);
}

TS_BODY void ones_ask_out(const ts_ones *o, int32_t dim) {
  if (o->bag + STORE_AHEAD >= o->end) return;
  const float *out = o->a->out + o->a->at[o->bag + STORE_AHEAD];
  for (int32_t d = 0; d < dim; d += 16) __builtin_prefetch(out + d, 1, 3);
}

TS_BODY void ones_bags(const ts_lookup_args *a, int p, int n, int32_t dim,
                       bool fixed, ts_dtype t) {
  const int64_t row_bytes = ts_row_bytes(t, dim);
  const int64_t n_blocks = ones_blocks(a, n);
  ts_ones o = {.a = a, .n_blocks = n_blocks, .row_bytes = row_bytes, .f = -1};
  o.block = n_blocks * p / n, o.last = n_blocks * (p + 1) / n;
  ts_ones far = o;
  const int64_t fit = ONES_BYTES / row_bytes, ahead = fit < AHEAD ? fit : AHEAD;
  for (int64_t i = 0; i < ahead; i++) ones_ask(&far);
  ts_bag b = {.rows = a->rows,
              .weights = a->weights,
              .row_bytes = row_bytes,
              .scale_at = ts_columns_bytes(t, dim),
              .ahead = INT64_MIN,
              .scale = 1.0f};
  while (ones_next(&o)) {
    b.table = o.table;
    for (; o.bag < o.end; o.bag++) {
      ones_ask(&far);
      ones_ask_out(&o, dim);
      b.out = a->out + a->at[o.bag];
      b.from = o.bag, b.to = o.bag + 1;
      sum_bag(&b, dim, fixed, t);
    }
  }
}

/* ---- any lookup ---------------------------------------------------------- */

/* Part P of N; ONES: every bag has one id. */
TS_BODY void lookup_dim(const ts_lookup_args *a, int p, int n, bool ones,
                        int32_t dim, bool fixed, ts_dtype t) {
  if (ones)
    ones_bags(a, p, n, dim, fixed, t);
  else
    lookup_bags(a, lookup_cut(a, p, n), lookup_cut(a, p + 1, n), dim, fixed, t);
}

TS_BODY void lookup_typed(const ts_lookup_args *a, int p, int n, bool ones,
                          ts_dtype t) {
  switch (a->dim) {
  case 16:
    lookup_dim(a, p, n, ones, 16, true, t);
    return;
  case 32:
    lookup_dim(a, p, n, ones, 32, true, t);
    return;
  case 64:
    lookup_dim(a, p, n, ones, 64, true, t);
    return;
  case 96:
    lookup_dim(a, p, n, ones, 96, true, t);
    return;
  case 128:
    lookup_dim(a, p, n, ones, 128, true, t);
    return;
  case 256:
    lookup_dim(a, p, n, ones, 256, true, t);
    return;
  default:
    lookup_dim(a, p, n, ones, a->dim, false, t);
    return;
  }
}

TS_BODY void lookup_part(const ts_lookup_args *a, int p, int n, bool ones) {
  if (a->dtype == TS_F32) lookup_typed(a, p, n, ones, TS_F32);
  if (a->dtype == TS_BF16) lookup_typed(a, p, n, ones, TS_BF16);
  if (a->dtype == TS_F16) lookup_typed(a, p, n, ones, TS_F16);
  if (a->dtype == TS_INT8) lookup_typed(a, p, n, ones, TS_INT8);
  if (a->dtype == TS_INT4) lookup_typed(a, p, n, ones, TS_INT4);
}
