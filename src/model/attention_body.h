/* attention_body.h - attention, for each instruction set.
 *
 * A task has up to GROUP queries: keys go by once, tile by tile, with the
 * largest score, the sum and o of each query so far (Milakov and Gimelshein,
 * "Online normalizer calculation for softmax", 2018). */
#pragma once

#include "model/attention_scores_body.h"

/* ---- forward ------------------------------------------------------------- */

typedef struct attention_room {
  factor *qt;            /* of GROUP queries, tile by tile */
  float *o, *most, *sum; /* of these */
  float *x;              /* of a tile */
  factor *v, *p, *rows;  /* of a tile; rows: of queries, then of keys */
  attention_side keys, values;
  attention_ahead ahead;
} attention_room;

static attention_room room_of(const ts_attention_args *t, float *from) {
  const int64_t dim = padded(t->dim), v_dim = padded(t->v_dim);
  attention_room m = {.x = NULL};
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
static void forward_tile(const attention_head *d, attention_room *m, int64_t i,
                         int64_t at, int64_t j) {
  const ts_attention_args *t = d->t;
  const attention_tile w = tile_of(d, i, j);
  const int64_t pad = padded(t->v_dim);
  const bool soft = t->kind == TS_ATTENTION_SOFTMAX;
  float times[TILE], mask[TILE * TILE];
  scores_of(d, &w, m->x, &m->keys, 0, m->qt + at * padded(t->dim), &m->ahead);
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
                                 .b = m->values.x,
                                 .times = soft ? times : NULL,
                                 .c_r = pad,
                                 .a_r = 1,
                                 .b_k = m->values.stride,
                                 .n_r = w.n_i,
                                 .n_k = w.n_j,
                                 .n_panels = (int32_t)(pad / LANES),
                                 .from_row = d->wanted > i ? d->wanted - i : 0,
                                 .add = j > 0,
                                 .ahead = &m->ahead,
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

/* Queries of a head from FROM on, N of them, at most GROUP: none where nobody
 * wants any. */
typedef struct attention_task {
  attention_head d;
  int64_t from, n;
  int64_t first; /* of these, the first one that is wanted */
} attention_task;

static int64_t tiles_in(int64_t n) {
  return (n + TILE - 1) / TILE;
}

/* Rows of the keys of a tile from J on, within so many steps. */
static void keys_ahead(attention_ahead *a, const attention_head *d, int64_t j,
                       int64_t steps) {
  const ts_attention_args *t = d->t;
  const int64_t n = least_of(TILE, d->length - j);
  ahead_of(a, SPAN_K, TS_HEAD_ROW(d, k, k_stride, dim, j), t->k_stride, t->dim,
           n, steps);
  ahead_of(a, SPAN_V, TS_HEAD_ROW(d, v, v_stride, v_dim, j), t->v_stride,
           t->v_dim, n, steps);
}

/* The next task's queries, and what this one writes at its end. */
static void queries_ahead(attention_ahead *a, const attention_task *x,
                          const attention_task *next, int64_t steps) {
  const ts_attention_args *t = x->d.t;
  const int64_t n = x->n - x->first, more = next->n - next->first;
  const int64_t at = x->from + x->first, from = next->from + next->first;
  ahead_of(a, SPAN_O, TS_HEAD_QUERY(&x->d, o, o_stride, v_dim, at), t->o_stride,
           t->v_dim, n, steps);
  if (more > 0)
    ahead_of(a, SPAN_Q, TS_HEAD_QUERY(&next->d, q, q_stride, dim, from),
             t->q_stride, t->dim, more, steps);
}

static void pack_queries(const attention_task *x, const attention_room *m) {
  const ts_attention_args *t = x->d.t;
  const int64_t n_c = factors_of(t->dim);
  for (int64_t i = x->first / TILE * TILE; i < x->n; i += TILE) {
    const int64_t n_i = least_of(TILE, x->n - i);
    const int64_t none = x->first > i ? x->first - i : 0;
    TS_EACH(c, none * padded(n_c)) m->rows[c] = 0;
    pack_along(m->rows + none * padded(n_c),
               TS_HEAD_QUERY(&x->d, q, q_stride, dim, x->from + i + none),
               t->q_stride, n_i - none, t->dim, packed_scale(t));
    turn_rows(m->qt + i * padded(t->dim), m->rows, n_i, n_c);
  }
  TS_EACH(i, GROUP) {
    m->most[i] = -FLT_MAX; /* minus infinity may be a score */
    m->sum[i] = 0;
  }
}

static void forward_task(const attention_task *x, const attention_task *next,
                         float *scratch) {
  const attention_head *d = &x->d;
  const ts_attention_args *t = d->t;
  attention_room m = room_of(t, scratch);
  const bool open = ts_attention_is_open(t, x->from);
  const int64_t end = open ? d->length : x->from + x->n;
  /* Tiles lie where they do if all queries are wanted: their bits do, too. */
  const int64_t begin = x->first / TILE * TILE, tiles = tiles_in(x->n - begin);
  const int64_t corner = open ? 0 : tiles * (tiles - 1) / 2; /* of none */
  pack_queries(x, &m);
  queries_ahead(&m.ahead, x, next,
                2 * STEPS * (tiles * tiles_in(end) - corner));
  for (int64_t j = 0; j < end; j += TILE) {
    const int64_t n_j = least_of(TILE, d->length - j);
    m.keys = along(m.rows, TS_HEAD_ROW(d, k, k_stride, dim, j), t->k_stride,
                   n_j, t->dim);
    m.values = across(m.v, TS_HEAD_ROW(d, v, v_stride, v_dim, j), t->v_stride,
                      n_j, t->v_dim);
    if (j + TILE < end)
      keys_ahead(&m.ahead, d, j + TILE, 2 * STEPS * tiles);
    else if (next->n)
      keys_ahead(&m.ahead, &next->d, 0, 2 * STEPS);
    for (int64_t i = begin; i < x->n; i += TILE)
      if (ts_attention_sees(t, x->from + i, j))
        forward_tile(d, &m, x->from + i, i, j);
  }
  put_queries(d, &m, x->from, x->first, x->n);
}

static int64_t groups_of(const ts_attention_args *t) {
  return (t->max_length + GROUP - 1) / GROUP;
}

/* The longest of causal ones first. */
static attention_task task_of(const ts_attention_args *t, int64_t at) {
  const int64_t groups = groups_of(t);
  attention_task x = {0};
  if (at >= t->n_sequences * t->n_heads * groups) return x;
  x.d = head_of(t, at / groups);
  x.from = (groups - 1 - at % groups) * GROUP;
  const int64_t end = least_of(x.d.length, x.from + GROUP);
  if (x.from >= end || x.d.wanted >= end) return x;
  x.n = end - x.from;
  x.first = x.d.wanted > x.from ? x.d.wanted - x.from : 0;
  return x;
}

static ts_err attention(const ts_attention_args *t) {
  const int64_t n = t->n_sequences * t->n_heads * groups_of(t);
  const int64_t each = (GROUP + TILE) * (padded(t->dim) + padded(t->v_dim)) +
                       2 * GROUP + 2 * TILE * TILE;
  float *scratch;
  TS_DO(ts_mem_many(scratch, omp_get_max_threads() * each, ACTIVATIONS));
#pragma omp parallel for schedule(dynamic)
  for (int64_t at = 0; at < n; at++) {
    const attention_task x = task_of(t, at);
    const attention_task next = task_of(t, at + omp_get_num_threads());
    if (x.n) forward_task(&x, &next, scratch + omp_get_thread_num() * each);
  }
  ts_mem_free(scratch);
  return TS_OK;
}
