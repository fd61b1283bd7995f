/* attention_scores_body.h - a tile of attention's scores, for each instruction
 * set: products of queries and keys, what is added to them, which pairs count,
 * and their dropout.
 *
 * Tiles are of keys (rows) by queries (columns), from the start of a sequence
 * on.  So what softmax needs of a query goes down a column, 16 queries at
 * once, keys and their gradients are read as they lie, and queries alone are
 * transposed. */
#pragma once

#include <float.h>
#include <math.h>

#include "model/attention_product_body.h"

static const float time_edges[] = {TS_TIME_EDGES};

/* A head of a sequence. */
typedef struct attention_head {
  const ts_attention_args *t;
  int64_t s, begin, length;
  int32_t h;
  float norm;     /* silu: 1 / norm */
  int64_t wanted; /* the first query that is */
  int64_t asks;   /* where queries' rows begin, in q and o */
} attention_head;

/* AT: of the pairs of a sequence and a head. */
static attention_head head_of(const ts_attention_args *t, int64_t at) {
  const int64_t s = at / t->n_heads;
  attention_head d = {.t = t,
                      .s = s,
                      .begin = t->offsets[s],
                      .length = t->offsets[s + 1] - t->offsets[s],
                      .h = (int32_t)(at % t->n_heads)};
  if (t->kept) d.wanted = d.length - (t->kept[s + 1] - t->kept[s]);
  d.asks = t->kept && t->kept_alone ? t->kept[s] - d.wanted : d.begin;
  d.norm = 1 / (t->norm != 0 ? t->norm : (float)d.length);
  return d;
}

/* Row I of an array with N columns for a head; of q or o in a forward pass. */
#define TS_HEAD_ROW_AT(d, from, array, stride, n, i)                           \
  ((d)->t->array + ((d)->from + (i)) * (d)->t->stride +                        \
   (int64_t)(d)->h * (d)->t->n)
#define TS_HEAD_ROW(d, array, stride, n, i)                                    \
  TS_HEAD_ROW_AT(d, begin, array, stride, n, i)
#define TS_HEAD_QUERY(d, array, stride, n, i)                                  \
  TS_HEAD_ROW_AT(d, asks, array, stride, n, i)

static int64_t least_of(int64_t a, int64_t b) {
  return a < b ? a : b;
}

/* N numbers or factors of a thread's scratch; whole vectors. */
static void *cut_off(float **from, int64_t n) {
  void *p = *from;
  *from += padded(n);
  return p;
}

/* A tile: queries from i on and keys from j on. */
typedef struct attention_tile {
  int64_t i, j, n_i, n_j, lanes; /* n_i in whole panels */
  int64_t skip;                  /* whole panels of queries that nobody wants */
  bool corner;                   /* keys after queries don't count */
  int64_t open; /* not 0: they count for so many of the first queries alone */
} attention_tile;

static attention_tile tile_of(const attention_head *d, int64_t i, int64_t j) {
  const int64_t n_i = least_of(TILE, d->length - i);
  const bool open = ts_attention_is_open(d->t, i);
  return (attention_tile){
      .i = i,
      .j = j,
      .n_i = n_i,
      .n_j = least_of(TILE, d->length - j),
      .lanes = padded(n_i),
      .skip = d->wanted > i ? (d->wanted - i) / LANES * LANES : 0,
      .corner = !open && i == j,
      .open = open && d->t->causal && j >= i ? d->t->context - i : 0};
}

/* ---- scores -------------------------------------------------------------- */

/* Fills NEAR with the biases that scores get by distance: NEAR[TILE - 1 + c -
 * r] is added in row r, column c. */
static void near_of(const attention_head *d, const attention_tile *w,
                    float near[2 * TILE]) {
  const ts_attention_args *t = d->t;
  const float *bias = t->bias ? t->bias + d->h * ts_attention_buckets(t) : NULL;
  const float slope = t->slopes ? t->slopes[d->h] : 0;
  for (int64_t k = 0; k < 2 * TILE; k++) {
    const int64_t by = w->i - w->j - (TILE - 1) + k;
    const float b = bias ? bias[ts_attention_bucket(t, by)] : 0;
    near[k] = b - slope * (float)(by < 0 ? -by : by);
  }
}

/* ---- biases by time ------------------------------------------------------ */

/* When a tile's queries are asked: the first and the last time of them. */
typedef struct attention_asked {
  const double *at;
  double first, last;
} attention_asked;

static attention_asked asked_of(const attention_head *d,
                                const attention_tile *w) {
  const double *at = d->t->asked + d->begin + w->i;
  attention_asked a = {at, at[0], at[0]};
  for (int64_t c = 1; c < w->n_i; c++) {
    if (at[c] < a.first) a.first = at[c];
    if (at[c] > a.last) a.last = at[c];
  }
  return a;
}

/* The times from a tile's key to its queries, which are of the buckets from
 * least to most. */
typedef struct attention_far {
  float by[TILE];
  int32_t least, most;
} attention_far;

TS_BODY void far_of(attention_far *f, const attention_head *d,
                    const attention_tile *w, const attention_asked *a,
                    int64_t r) {
  const int32_t n = d->t->n_times;
  const double when = d->t->when[d->begin + w->j + r];
  const double before = a->first - when, after = a->last - when;
  const double near = before > 0 ? before : after < 0 ? -after : 0;
  const double end = after > -before ? after : -before;
  f->least = ts_time_bucket((float)near, time_edges, n);
  f->most = ts_time_bucket((float)end, time_edges, n);
  TS_EACH(c, w->n_i)
  f->by[c] = ts_time_within((float)fabs(a->at[c] - when));
}

/* A tile's times are of few buckets, so that comparing them with each of these
 * edges takes less than a lookup for each pair. */
static void add_time_bias(const attention_head *d, const attention_tile *w,
                          float *restrict x) {
  const float *bias = d->t->time_bias + (int64_t)d->h * d->t->n_times;
  const attention_asked asked = asked_of(d, w);
  attention_far f;
  float add[TILE];
  for (int64_t r = 0; r < w->n_j; r++) {
    far_of(&f, d, w, &asked, r);
    TS_EACH(c, w->n_i) add[c] = bias[f.least];
    for (int32_t b = f.least + 1; b <= f.most; b++) {
      const float edge = time_edges[b], own = bias[b];
      TS_EACH(c, w->n_i) add[c] = f.by[c] >= edge ? own : add[c];
    }
    TS_EACH(c, w->n_i) x[r * TILE + c] += add[c];
  }
}

/* ---- scores, with what is added to them ---------------------------------- */

/* X (keys, TILE) from keys, the tile's first one at AT, and queries QT
 * (factors_of(dim), TILE), packed_scale times what they are.  Before the panel
 * of a corner's diagonal it's left as it is. */
static void scores_of(const attention_head *d, const attention_tile *w,
                      float *restrict x, const attention_side *keys, int64_t at,
                      const factor *qt, attention_ahead *ahead) {
  const ts_attention_args *t = d->t;
  float near[2 * TILE];
  product_along(&(tile_product){.c = x,
                                .a = keys->x + at * keys->stride,
                                .b = qt,
                                .c_r = TILE,
                                .a_r = keys->stride,
                                .b_k = TILE,
                                .n_r = w->n_j,
                                .n_k = t->dim,
                                .n_panels = (int32_t)(w->lanes / LANES),
                                .from_panel = w->skip / LANES,
                                .ahead = ahead,
                                .part = w->corner ? PANELS_FROM_ROW : WHOLE});
  for (int64_t r = 0; scale_left(t) != 1 && r < w->n_j; r++)
    TS_EACH(c, w->lanes) x[r * TILE + c] *= scale_left(t);
  if (t->time_bias) add_time_bias(d, w, x);
  if (!t->bias && !t->slopes) return;
  near_of(d, w, near);
  for (int64_t r = 0; r < w->n_j; r++)
    TS_EACH(c, w->lanes) x[r * TILE + c] += near[TILE - 1 + c - r];
}

/* The first column of row R that is wanted and more than zeros, on a panel's
 * border. */
static int64_t row_from(const attention_tile *w, int64_t r) {
  const int64_t from = w->corner ? r / LANES * LANES : 0;
  return from > w->skip ? from : w->skip;
}

/* The same; what is left out of its panel gets HOLE, all before it 0. */
static int64_t row_start(const attention_tile *w, int64_t r, float *x,
                         float hole) {
  const int64_t from = row_from(w, r);
  const int64_t past = least_of(w->lanes, w->j - w->i + r);
  for (int64_t c = w->open; w->open && c < past; c++) x[c] = hole;
  TS_EACH(c, from) x[c] = 0;
  for (int64_t c = from; w->corner && c < r; c++) x[c] = hole;
  return from;
}

/* ---- dropout ------------------------------------------------------------- */

/* The tile's m_ij (ts_attention_args), where its pairs count. */
static void mask_of(const attention_head *d, const attention_tile *w,
                    float *restrict mask) {
  const float drop = d->t->drop, keep = 1 / (1 - drop);
  const uint64_t row = ts_attention_counter(d->t, d->s, d->h);
  for (int64_t r = 0; r < w->n_j; r++, mask += TILE) {
    uint32_t word[4 * PHILOX];
    philox_row(word, row, (uint32_t)(w->j + r), (uint32_t)w->i / 4, d->t->key);
    TS_EACH(c, w->lanes)
    mask[c] = (float)(int32_t)(word[c] >> 8) * 0x1p-24f < drop ? 0 : keep;
  }
}

/* Pairs that count, times theirs. */
static void drop_pairs(const attention_tile *w, float *restrict x,
                       const float *restrict mask) {
  for (int64_t r = 0; r < w->n_j; r++) {
    const int64_t from = w->corner ? r / LANES * LANES : 0;
    float *row = x + r * TILE;
    TS_EACH(c, w->lanes - from) row[from + c] *= mask[r * TILE + from + c];
  }
}
