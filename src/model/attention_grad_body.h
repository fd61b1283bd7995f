/* attention_grad_body.h - attention's gradients, for each instruction set.
 *
 * Scores and p are made anew, tile by tile (attention_body.h).  A group of keys
 * has its gradients in scratch while queries go by; those of queries are added
 * group by group.  With enough sequences a task has a whole one, and a tile
 * serves all three gradients; else groups of queries, then of keys, are tasks,
 * which makes each tile twice.  The sums and their order are the same. */
#pragma once

#include "model/attention_body.h"

typedef struct grad_room {
  factor *k; /* of a GROUP of keys, across them */
  attention_side k_along, v_along, k_across; /* of these */
  float *dk, *dv;
  factor *q, *d_o, *qt, *d_ot;        /* of a tile of queries */
  float *dq, *lse, *dot;              /* of these; dot: d_o . o */
  float *x, *dx;                      /* of a tile: p and its gradient */
  factor *rows, *k_rows, *v_rows, *p; /* room for factors */
  float *part;                        /* of the biases' gradients */
  bool queries, keys;                 /* whose gradients are wanted */
  attention_ahead ahead;
  attention_head next; /* where this thread goes on; of length 0: nowhere */
} grad_room;

static int64_t grad_floats(const ts_attention_args *t) {
  const int64_t most = t->dim > t->v_dim ? t->dim : t->v_dim;
  return (GROUP + TILE) * (3 * padded(t->dim) + 2 * padded(t->v_dim)) +
         TILE * padded(most) + 2 * TILE + 3 * TILE * TILE;
}

static grad_room grad_room_of(const ts_attention_args *t, float *from) {
  const int64_t dim = padded(t->dim), v_dim = padded(t->v_dim);
  grad_room m = {.k = cut_off(&from, GROUP * dim)};
  m.dk = cut_off(&from, GROUP * dim);
  m.dv = cut_off(&from, GROUP * v_dim);
  m.q = cut_off(&from, TILE * dim);
  m.qt = cut_off(&from, TILE * dim);
  m.dq = cut_off(&from, TILE * dim);
  m.d_o = cut_off(&from, TILE * v_dim);
  m.d_ot = cut_off(&from, TILE * v_dim);
  m.lse = cut_off(&from, TILE);
  m.dot = cut_off(&from, TILE);
  m.x = cut_off(&from, TILE * TILE);
  m.dx = cut_off(&from, TILE * TILE);
  m.p = cut_off(&from, TILE * TILE);
  m.rows = cut_off(&from, TILE * (dim > v_dim ? dim : v_dim));
  m.k_rows = cut_off(&from, GROUP * dim);
  m.v_rows = cut_off(&from, GROUP * v_dim);
  return m;
}

/* The N_I queries from I on. */
static void load_queries(const attention_head *d, const grad_room *m, int64_t i,
                         int64_t n_i) {
  const ts_attention_args *t = d->t;
  const float *d_o = TS_HEAD_ROW(d, d_o, o_stride, v_dim, i);
  pack_both(m->qt, m->q, m->rows, TS_HEAD_ROW(d, q, q_stride, dim, i),
            t->q_stride, n_i, t->dim, packed_scale(t));
  pack_both(m->d_ot, m->d_o, m->rows, d_o, t->o_stride, n_i, t->v_dim, 1);
  if (t->kind != TS_ATTENTION_SOFTMAX) return;
  for (int64_t c = 0; c < n_i; c++) {
    const float *o = TS_HEAD_ROW(d, out, o_stride, v_dim, i + c);
    const float *g = d_o + c * t->o_stride;
    m->lse[c] = t->lse[(d->begin + i + c) * t->n_heads + d->h];
    TS_LANES_SUM(m->dot[c], e, t->v_dim, g[e] * o[e]);
  }
}

/* X: p of scores; DX: the gradient of scores from that of p, dropped ones 0. */
static void soft_grad(const attention_tile *w, float *restrict x,
                      float *restrict dx, const float *restrict lse,
                      const float *restrict dot) {
  for (int64_t r = 0; r < w->n_j; r++, x += TILE, dx += TILE) {
    const int64_t from = row_start(w, r, x, -INFINITY);
    (void)row_start(w, r, dx, 0);
    TS_EACH(c, w->lanes - from) {
      const float p = exp_below(x[from + c] - lse[from + c]);
      x[from + c] = p;
      dx[from + c] = p * (dx[from + c] - dot[from + c]);
    }
  }
}

static void silu_grad(const attention_tile *w, float *restrict x,
                      float *restrict dx, float norm) {
  for (int64_t r = 0; r < w->n_j; r++, x += TILE, dx += TILE) {
    const int64_t from = row_start(w, r, x, 0);
    (void)row_start(w, r, dx, 0);
    TS_EACH(c, w->lanes - from) {
      const float v = x[from + c];
      x[from + c] = norm * act_of(TS_ACT_SILU, false, v, 0);
      dx[from + c] *= norm * act_of(TS_ACT_SILU, true, v, 0);
    }
  }
}

static void add_bias_grad(const attention_head *d, const attention_tile *w,
                          const float *restrict dx, float *part) {
  float near[2 * TILE] = {0};
  for (int64_t r = 0; r < w->n_j; r++)
    TS_EACH(c, w->n_i) near[TILE - 1 + c - r] += dx[r * TILE + c];
  for (int64_t k = 0; k < 2 * TILE; k++)
    part[ts_attention_bucket(d->t, w->i - w->j - (TILE - 1) + k)] += near[k];
}

/* Sums by bucket of a tile's columns: rows [least, most) of SUM (buckets,
 * TILE), those that some key has had. */
typedef struct time_sums {
  float sum[TS_TIME_BUCKETS * TILE];
  int32_t least, most;
} time_sums;

static void make_room_for(time_sums *s, const attention_far *f) {
  if (s->least == s->most) s->least = s->most = f->least;
  while (s->least > f->least)
    memset(s->sum + --s->least * TILE, 0, TILE * sizeof *s->sum);
  while (s->most <= f->most)
    memset(s->sum + s->most++ * TILE, 0, TILE * sizeof *s->sum);
}

static void add_time_grad(const attention_head *d, const attention_tile *w,
                          const float *restrict dx, float *part) {
  const attention_asked asked = asked_of(d, w);
  attention_far f;
  time_sums s;
  s.least = s.most = 0;
  for (int64_t r = 0; r < w->n_j; r++, dx += TILE) {
    far_of(&f, d, w, &asked, r);
    make_room_for(&s, &f);
    for (int32_t b = f.least; b <= f.most; b++) {
      const float edge = time_edges[b];
      const float end = b == f.most ? INFINITY : time_edges[b + 1];
      float *restrict sum = s.sum + b * TILE;
      TS_EACH(c, w->n_i)
      sum[c] += f.by[c] >= edge && f.by[c] < end ? dx[c] : 0;
    }
  }
  part += ts_attention_times(d->t);
  for (int32_t b = s.least; b < s.most; b++) {
    float sum = 0;
    for (int64_t c = 0; c < w->n_i; c++) sum += s.sum[b * TILE + c];
    part[b] += sum;
  }
}

/* C (rows of keys, from AT on) += X (keys, queries) times rows of B. */
static void add_to_keys(const attention_tile *w, attention_ahead *ahead,
                        float *c, const factor *x, const factor *b,
                        int64_t pad) {
  product_along(&(tile_product){.c = c,
                                .a = x,
                                .b = b,
                                .c_r = pad,
                                .a_r = TILE / PER,
                                .b_k = pad,
                                .n_r = w->n_j,
                                .n_k = w->n_i,
                                .n_panels = (int32_t)(pad / LANES),
                                .add = true,
                                .part = w->corner ? K_FROM_ROW : WHOLE,
                                .ahead = ahead});
}

/* AT: the tile's first key in the group. */
static void grad_tile(const attention_head *d, grad_room *m, int64_t i,
                      int64_t j, int64_t at) {
  const ts_attention_args *t = d->t;
  const attention_tile w = tile_of(d, i, j);
  const int64_t dim = padded(t->dim), v_dim = padded(t->v_dim);
  float mask[TILE * TILE];
  scores_of(d, &w, m->x, &m->k_along, at, m->qt, &m->ahead);
  product_along(&(tile_product){.c = m->dx,
                                .a = m->v_along.x + at * m->v_along.stride,
                                .b = m->d_ot,
                                .c_r = TILE,
                                .a_r = m->v_along.stride,
                                .b_k = TILE,
                                .n_r = w.n_j,
                                .n_k = t->v_dim,
                                .n_panels = (int32_t)(w.lanes / LANES),
                                .part = w.corner ? PANELS_FROM_ROW : WHOLE,
                                .ahead = &m->ahead});
  if (t->drop > 0) {
    mask_of(d, &w, mask);
    drop_pairs(&w, m->dx, mask);
  }
  if (t->kind == TS_ATTENTION_SOFTMAX)
    soft_grad(&w, m->x, m->dx, m->lse, m->dot);
  else
    silu_grad(&w, m->x, m->dx, d->norm);
  if (t->drop > 0) drop_pairs(&w, m->x, mask);
  if (m->keys) {
    add_to_keys(&w, &m->ahead, m->dv + at * v_dim,
                tile_along(m->p, m->x, w.n_j, w.n_i), m->d_o, v_dim);
    add_to_keys(&w, &m->ahead, m->dk + at * dim,
                tile_along(m->p, m->dx, w.n_j, w.n_i), m->q, dim);
    if (t->dbias) add_bias_grad(d, &w, m->dx, m->part);
    if (t->dtime_bias) add_time_grad(d, &w, m->dx, m->part);
  }
  if (m->queries)
    product_across(
        &(tile_product){.c = m->dq,
                        .a = tile_across(m->p, m->dx, w.n_j, w.n_i),
                        .b = m->k_across.x + at / PER * m->k_across.stride,
                        .c_r = dim,
                        .a_r = 1,
                        .b_k = m->k_across.stride,
                        .n_r = w.n_i,
                        .n_k = w.n_j,
                        .n_panels = (int32_t)(dim / LANES),
                        .add = at > 0,
                        .part = w.corner ? K_TO_ROW : WHOLE,
                        .ahead = &m->ahead});
}

/* Keys of a group, from FROM to END: zeros at first, then into their place. */
static void begin_keys(const attention_head *d, grad_room *m, int64_t from,
                       int64_t n) {
  const ts_attention_args *t = d->t;
  const int64_t n_biases =
      t->dbias || t->dtime_bias ? ts_attention_biases(t) : 0;
  const int64_t part = ts_attention_part(d->s, d->begin, GROUP) + from / GROUP;
  const float *k = TS_HEAD_ROW(d, k, k_stride, dim, from);
  const float *v = TS_HEAD_ROW(d, v, v_stride, v_dim, from);
  m->k_along = along(m->k_rows, k, t->k_stride, n, t->dim);
  m->v_along = along(m->v_rows, v, t->v_stride, n, t->v_dim);
  m->k_across = across(m->k, k, t->k_stride, n, t->dim);
  if (!m->keys) return;
  memset(m->dk, 0, (size_t)(n * padded(t->dim)) * sizeof *m->dk);
  memset(m->dv, 0, (size_t)(n * padded(t->v_dim)) * sizeof *m->dv);
  if (!n_biases) return;
  m->part = ts_attention_parts(t) + (part * t->n_heads + d->h) * n_biases;
  memset(m->part, 0, (size_t)n_biases * sizeof *m->part);
}

static void put_keys(const attention_head *d, const grad_room *m, int64_t from,
                     int64_t n) {
  const ts_attention_args *t = d->t;
  for (int64_t j = 0; j < n; j++) {
    float *dk = TS_HEAD_ROW(d, dk, k_stride, dim, from + j);
    float *dv = TS_HEAD_ROW(d, dv, v_stride, v_dim, from + j);
    const float *k = m->dk + j * padded(t->dim);
    const float *v = m->dv + j * padded(t->v_dim);
    TS_EACH(c, t->dim) dk[c] = scale_left(t) * k[c];
    TS_EACH(c, t->v_dim) dv[c] = v[c];
  }
}

/* The first group sets, others add. */
static void put_queries_grad(const attention_head *d, const grad_room *m,
                             int64_t i, int64_t n_i, bool add) {
  const ts_attention_args *t = d->t;
  for (int64_t r = 0; r < n_i; r++) {
    float *to = TS_HEAD_ROW(d, dq, q_stride, dim, i + r);
    const float *dq = m->dq + r * padded(t->dim);
    if (add)
      TS_EACH(c, t->dim) to[c] += t->scale * dq[c];
    else
      TS_EACH(c, t->dim) to[c] = t->scale * dq[c];
  }
}

/* Rows of the N_I queries from I on, within so many steps. */
static void load_ahead(attention_ahead *a, const attention_head *d, int64_t i,
                       int64_t steps) {
  const ts_attention_args *t = d->t;
  const int64_t n = least_of(TILE, d->length - i);
  if (n <= 0) return;
  ahead_of(a, SPAN_Q, TS_HEAD_ROW(d, q, q_stride, dim, i), t->q_stride, t->dim,
           n, steps);
  ahead_of(a, SPAN_D_O, TS_HEAD_ROW(d, d_o, o_stride, v_dim, i), t->o_stride,
           t->v_dim, n, steps);
  if (t->kind == TS_ATTENTION_SOFTMAX)
    ahead_of(a, SPAN_O, TS_HEAD_ROW(d, out, o_stride, v_dim, i), t->o_stride,
             t->v_dim, n, steps);
}

/* While keys of a group from FROM on meet their queries: those that come behind
 * them, and where their gradients go. */
static void group_ahead(const attention_head *d, grad_room *m, int64_t from,
                        int64_t steps) {
  const ts_attention_args *t = d->t;
  attention_ahead *a = &m->ahead;
  const bool here = from + GROUP < d->length;
  const attention_head *x = here ? d : &m->next;
  const int64_t j = here ? from + GROUP : 0, n = least_of(GROUP, x->length - j);
  const int64_t own = least_of(GROUP, d->length - from);
  if (n > 0) {
    ahead_of(a, SPAN_K, TS_HEAD_ROW(x, k, k_stride, dim, j), t->k_stride,
             t->dim, n, steps);
    ahead_of(a, SPAN_V, TS_HEAD_ROW(x, v, v_stride, v_dim, j), t->v_stride,
             t->v_dim, n, steps);
  }
  if (!m->keys) return;
  ahead_of(a, SPAN_DK, TS_HEAD_ROW(d, dk, k_stride, dim, from), t->k_stride,
           t->dim, own, steps);
  ahead_of(a, SPAN_DV, TS_HEAD_ROW(d, dv, v_stride, v_dim, from), t->v_stride,
           t->v_dim, own, steps);
}

/* The group of keys from FROM on, and the queries in [START, END). */
static void grad_group(const attention_head *d, grad_room *m, int64_t from,
                       int64_t start, int64_t end) {
  const ts_attention_args *t = d->t;
  const int64_t n = least_of(GROUP, d->length - from);
  const int64_t steps = STEPS * (2 + 2 * m->keys + m->queries) * tiles_in(n);
  begin_keys(d, m, from, n);
  /* Half of the tiles of causal ones are there. */
  group_ahead(d, m, from, steps * tiles_in(end - start) / 2 + 1);
  for (int64_t i = start; i < end; i += TILE) {
    const int64_t n_i = least_of(TILE, d->length - i);
    if (!ts_attention_sees(t, i, from)) continue;
    load_queries(d, m, i, n_i);
    if (i + TILE < end)
      load_ahead(&m->ahead, d, i + TILE, steps / 2);
    else
      load_ahead(&m->ahead, &m->next, 0, steps / 2);
    if (m->queries)
      ahead_of(&m->ahead, SPAN_DQ, TS_HEAD_ROW(d, dq, q_stride, dim, i),
               t->q_stride, t->dim, n_i, steps / 2);
    for (int64_t at = 0; at < n && ts_attention_sees(t, i, from + at);
         at += TILE)
      grad_tile(d, m, i, from + at, at);
    if (m->queries) put_queries_grad(d, m, i, n_i, from > 0);
  }
  if (m->keys) put_keys(d, m, from, n);
}

/* ---- tasks --------------------------------------------------------------- */

/* A whole sequence, or group AT of its queries, or of its keys. */
static void grad_task(const attention_head *d, grad_room *m, int64_t at) {
  if (m->queries) {
    const int64_t start = m->keys ? 0 : at * GROUP;
    const int64_t end =
        m->keys ? d->length : least_of(d->length, start + GROUP);
    const bool open = ts_attention_is_open(d->t, start);
    for (int64_t j = 0; j < (open ? d->length : end); j += GROUP)
      grad_group(d, m, j, start, end);
  } else {
    grad_group(d, m, at * GROUP, 0, d->length);
  }
}

static void grad_tasks(const ts_attention_args *t, float *scratch, bool queries,
                       bool keys) {
  const int64_t groups = queries && keys ? 1 : groups_of(t);
  const int64_t n = t->n_sequences * t->n_heads * groups;
#pragma omp parallel for schedule(dynamic)
  for (int64_t k = 0; k < n; k++) {
    const attention_head d = head_of(t, k / groups);
    grad_room m =
        grad_room_of(t, scratch + omp_get_thread_num() * grad_floats(t));
    const int64_t more = k + omp_get_num_threads();
    m.queries = queries, m.keys = keys;
    if (more < n) m.next = head_of(t, more / groups);
    if (k % groups * GROUP < d.length) grad_task(&d, &m, k % groups);
  }
}

/* dbias and dtime_bias from their parts, in the order of sequences and their
 * keys. */
static void sum_parts(const ts_attention_args *t) {
  const int64_t each = ts_attention_biases(t), times = ts_attention_times(t);
  const int64_t n = t->n_heads * each;
  const float *parts = ts_attention_parts(t);
#pragma omp parallel for schedule(static)
  for (int64_t b = 0; b < n; b++) {
    double sum = 0;
    for (int64_t s = 0; s < t->n_sequences; s++)
      for (int64_t at = t->offsets[s], k = ts_attention_part(s, at, GROUP);
           at < t->offsets[s + 1]; at += GROUP, k++)
        sum += (double)parts[k * n + b];
    const int64_t h = b / each, k = b % each;
    float *to = k < times ? t->dbias : t->dtime_bias;
    if (to)
      to[k < times ? h * times + k : h * t->n_times + k - times] = (float)sum;
  }
}

static ts_err attention_grad(const ts_attention_args *t) {
  const int64_t threads = omp_get_max_threads();
  const int64_t pairs = t->n_sequences * t->n_heads;
  float *scratch;
  TS_DO(ts_mem_many(scratch, threads * grad_floats(t), ACTIVATIONS));
  if (2 * pairs >= 3 * threads || threads == 1) {
    grad_tasks(t, scratch, true, true);
  } else {
    grad_tasks(t, scratch, true, false);
    grad_tasks(t, scratch, false, true);
  }
  if (t->dbias || t->dtime_bias) sum_parts(t);
  ts_mem_free(scratch);
  return TS_OK;
}
