/* attention_body.h - attention, for each instruction set.
 *
 * Tiles are of keys (rows) by queries (columns), from the start of a sequence
 * on.  So what softmax needs of a query goes down a column, 16 queries at
 * once, keys and their gradients are read as they lie, and queries alone are
 * transposed.  A task has up to GROUP queries: keys go by once, with the
 * largest score, the sum and o of each query so far (Milakov and Gimelshein,
 * "Online normalizer calculation for softmax", 2018). */
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

/* Rows as factors along them. */
typedef struct attention_side {
  const factor *x;
  int64_t stride;
} attention_side;

static attention_side side_of(factor *room, const float *x, int64_t stride,
                              int64_t n, int32_t dim) {
  attention_side s;
  s.x = rows_along(room, x, &stride, n, dim);
  s.stride = stride;
  return s;
}

/* X (keys, TILE) from keys, the tile's first one at AT, and queries QT (dim,
 * TILE), which are scaled.  Before the panel of a corner's diagonal it's left
 * as it is. */
static void scores_of(const attention_head *d, const attention_tile *w,
                      float *restrict x, const attention_side *keys, int64_t at,
                      const factor *qt) {
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

/* ---- forward ------------------------------------------------------------- */

typedef struct attention_room {
  factor *qt;            /* of GROUP queries, tile by tile */
  float *o, *most, *sum; /* of these */
  float *x;              /* of a tile */
  factor *v, *p, *rows;  /* of a tile; rows: of queries, then of keys */
  attention_side keys;
} attention_room;

static attention_room room_of(const ts_attention_args *t, float *from) {
  const int64_t dim = padded(t->dim), v_dim = padded(t->v_dim);
  attention_room m;
  m.qt = cut_off(&from, GROUP * dim);
  m.o = cut_off(&from, GROUP * v_dim);
  m.most = cut_off(&from, GROUP);
  m.sum = cut_off(&from, GROUP);
  m.v = cut_off(&from, TILE * v_dim);
  m.x = cut_off(&from, TILE * TILE);
  m.p = cut_off(&from, TILE * TILE / PER);
  m.rows = cut_off(&from, TILE * dim);
  return m;
}

/* X becomes exp(x - most so far); TIMES: what those before it are times. */
static void soft_tile(const attention_tile *w, float *restrict x,
                      float *restrict most, float *restrict sum,
                      float *restrict times) {
  TS_EACH(c, w->lanes) times[c] = most[c];
  for (int64_t r = 0; r < w->n_j; r++) {
    float *row = x + r * TILE;
    const int64_t from = row_start(w, r, row, -INFINITY);
    TS_EACH(c, w->lanes - from) {
      const float v = row[from + c], m = most[from + c];
      most[from + c] = v > m ? v : m;
    }
  }
  TS_EACH(c, w->lanes) {
    times[c] = exp_below(times[c] - most[c]);
    sum[c] *= times[c];
  }
  for (int64_t r = 0; r < w->n_j; r++) {
    const int64_t from = row_from(w, r);
    float *row = x + r * TILE;
    TS_EACH(c, w->lanes - from) {
      const float e = exp_below(row[from + c] - most[from + c]);
      row[from + c] = e;
      sum[from + c] += e;
    }
  }
}

static void silu_tile(const attention_tile *w, float *x, float norm) {
  for (int64_t r = 0; r < w->n_j; r++, x += TILE) {
    const int64_t from = row_start(w, r, x, 0); /* of 0 it is 0 */
    TS_EACH(c, w->lanes - from)
    x[from + c] = norm * act_of(TS_ACT_SILU, false, x[from + c], 0);
  }
}

/* Keys from J on for the queries at I; AT: these in the group. */
static void forward_tile(const attention_head *d, const attention_room *m,
                         int64_t i, int64_t at, int64_t j) {
  const ts_attention_args *t = d->t;
  const attention_tile w = tile_of(d, i, j);
  const int64_t pad = padded(t->v_dim);
  const bool soft = t->kind == TS_ATTENTION_SOFTMAX;
  float times[TILE], mask[TILE * TILE];
  scores_of(d, &w, m->x, &m->keys, 0, m->qt + at * padded(t->dim));
  if (soft)
    soft_tile(&w, m->x, m->most + at, m->sum + at, times);
  else
    silu_tile(&w, m->x, d->norm);
  if (t->drop > 0) {
    mask_of(d, &w, mask);
    drop_pairs(&w, m->x, mask);
  }
  product_across(&(tile_product){.c = m->o + at * pad,
                                 .a = tile_across(m->p, m->x, w.n_j, w.n_i),
                                 .b = m->v,
                                 .times = soft ? times : NULL,
                                 .c_r = pad,
                                 .a_r = 1,
                                 .b_k = pad,
                                 .n_r = w.n_i,
                                 .n_k = w.n_j,
                                 .n_panels = (int32_t)(pad / LANES),
                                 .from_row = d->wanted > i ? d->wanted - i : 0,
                                 .add = j > 0,
                                 .part = w.corner ? K_TO_ROW : WHOLE});
}

/* Those from FIRST to N of the group that begins at FROM. */
static void put_queries(const attention_head *d, const attention_room *m,
                        int64_t from, int64_t first, int64_t n) {
  const ts_attention_args *t = d->t;
  const bool soft = t->kind == TS_ATTENTION_SOFTMAX;
  for (int64_t i = first; i < n; i++) {
    float *to = TS_HEAD_QUERY(d, o, o_stride, v_dim, from + i);
    const float *o = m->o + i * padded(t->v_dim), sum = m->sum[i];
    const float by = soft ? 1 / sum : 1;
    TS_EACH(c, t->v_dim) to[c] = by * o[c];
    if (soft)
      t->lse[(d->begin + from + i) * t->n_heads + d->h] =
          m->most[i] + logf(sum);
  }
}

/* The GROUP queries from FROM on. */
static void forward_group(const attention_head *d, int64_t from,
                          float *scratch) {
  const ts_attention_args *t = d->t;
  attention_room m = room_of(t, scratch);
  const int64_t n = least_of(GROUP, d->length - from);
  const int64_t end = ts_attention_is_open(t, from) ? d->length : from + n;
  /* Tiles lie where they do if all queries are wanted: their bits do, too. */
  const int64_t first = d->wanted > from ? d->wanted - from : 0;
  const int64_t begin = first / TILE * TILE;
  for (int64_t i = begin; i < n; i += TILE) {
    const int64_t n_i = least_of(TILE, n - i), none = first > i ? first - i : 0;
    const int64_t n_c = factors_of(t->dim);
    TS_EACH(c, none * padded(n_c)) m.rows[c] = 0;
    pack_along(m.rows + none * padded(n_c),
               TS_HEAD_QUERY(d, q, q_stride, dim, from + i + none), t->q_stride,
               n_i - none, t->dim, packed_scale(t));
    turn_rows(m.qt + i * padded(t->dim), m.rows, n_i, n_c);
  }
  TS_EACH(i, GROUP) {
    m.most[i] = -FLT_MAX; /* minus infinity may be a score */
    m.sum[i] = 0;
  }
  for (int64_t j = 0; j < end; j += TILE) {
    const int64_t n_j = least_of(TILE, d->length - j);
    m.keys = side_of(m.rows, TS_HEAD_ROW(d, k, k_stride, dim, j), t->k_stride,
                     n_j, t->dim);
    pack_across(m.v, TS_HEAD_ROW(d, v, v_stride, v_dim, j), t->v_stride, n_j,
                t->v_dim);
    for (int64_t i = begin; i < n; i += TILE)
      if (ts_attention_sees(t, from + i, j))
        forward_tile(d, &m, from + i, i, j);
  }
  put_queries(d, &m, from, first, n);
}

static int64_t groups_of(const ts_attention_args *t) {
  return (t->max_length + GROUP - 1) / GROUP;
}

static ts_err attention(const ts_attention_args *t) {
  const int64_t groups = groups_of(t);
  const int64_t n = t->n_sequences * t->n_heads * groups;
  const int64_t each = (GROUP + TILE) * (padded(t->dim) + padded(t->v_dim)) +
                       2 * GROUP + 2 * TILE * TILE;
  float *scratch;
  TS_DO(ts_mem_many(scratch, omp_get_max_threads() * each, ACTIVATIONS));
#pragma omp parallel for schedule(dynamic)
  for (int64_t at = 0; at < n; at++) { /* the longest of causal ones first */
    const attention_head d = head_of(t, at / groups);
    const int64_t from = (groups - 1 - at % groups) * GROUP;
    if (from < d.length && d.wanted < from + GROUP)
      forward_group(&d, from, scratch + omp_get_thread_num() * each);
  }
  ts_mem_free(scratch);
  return TS_OK;
}
