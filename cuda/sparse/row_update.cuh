/* row_update.cuh - how a group of lanes holds a row, and updates it.
 *
 * A row belongs to W neighbouring lanes of a warp, each with four columns at a
 * time ("quad": lane l has the columns 4 l .. 4 l + 3 of each sweep of 4 W).
 * Groups of a warp go on together, with work or without, so that all lanes
 * meet in every exchange.  Sums over a row are the host's (sparse/isa.h): a
 * tree over quads, of which a lane has one of each sweep. */
#pragma once

#include "cuda/runtime/store.cuh"
#include "cuda/sparse/rounding.cuh"
#include "cuda/sparse/few_bits.cuh"
#include "cuda/sparse/row_work.cuh"

/* ---- quads --------------------------------------------------------------- */

struct ts_quad {
  ts_real x[4];
};
struct alignas(16) ts_quad_32 {
  float x[4];
};
struct alignas(8) ts_quad_16 {
  uint16_t x[4];
};

/* N of four floats from P; WIDE: all four, 16-byte aligned. */
__device__ inline ts_quad ts_quad_load(const float *p, int n, bool wide) {
  ts_quad q = {};
  if (wide) {
    const ts_quad_32 v = *(const ts_quad_32 *)p;
    for (int k = 0; k < 4; k++) q.x[k].x = v.x[k];
  } else {
    for (int k = 0; k < 4; k++)
      if (k < n) q.x[k].x = p[k];
  }
  return q;
}

__device__ inline void ts_quad_store(float *p, ts_quad q, int n, bool wide) {
  if (wide) {
    ts_store((float4 *)p, make_float4(q.x[0].x, q.x[1].x, q.x[2].x, q.x[3].x));
  } else {
    for (int k = 0; k < 4; k++)
      if (k < n) p[k] = q.x[k].x;
  }
}

/* The four columns from AT (elements) of the rows, widened. */
__device__ inline ts_quad ts_row_load(const ts_row_place &r, int64_t at,
                                      int n) {
  if (r.dtype == TS_F32)
    return ts_quad_load((const float *)r.weight + at, n, r.wide_loads);
  const uint16_t *p = (const uint16_t *)r.weight + at;
  ts_quad_16 v = {};
  ts_quad q;
  if (r.wide_loads)
    v = *(const ts_quad_16 *)p;
  else
    for (int k = 0; k < 4; k++)
      if (k < n) v.x[k] = p[k];
  for (int k = 0; k < 4; k++)
    q.x[k].x = r.dtype == TS_BF16 ? ts_wide_bf16(v.x[k]) : ts_wide_f16(v.x[k]);
  return q;
}

/* And back: 16-bit rows rounded by seed, step, table, row and column. */
__device__ inline void ts_row_store(const ts_row_place &r, int64_t at,
                                    ts_quad q, int n, const ts_row_table &t,
                                    uint32_t key, uint32_t column) {
  if (r.dtype == TS_F32) {
    ts_quad_store((float *)r.weight + at, q, n, r.wide_loads);
    return;
  }
  uint32_t words[4];
  ts_quad_16 v;
  int64_t row = t.first_row + key - t.base;
  if (r.row_id) row = r.row_id[key];
  ts_philox_words(words, (uint64_t)row, r.step, t.first_quad + column / 4,
                  t.rounding_key);
  for (int k = 0; k < 4; k++)
    v.x[k] = r.dtype == TS_BF16 ? ts_round_bf16(q.x[k].x, words[k])
                                : ts_round_f16(q.x[k].x, words[k]);
  uint16_t *p = (uint16_t *)r.weight + at;
  if (r.wide_loads)
    *(ts_quad_16 *)p = v;
  else
    for (int k = 0; k < 4; k++)
      if (k < n) p[k] = v.x[k];
}

__device__ inline void ts_prefetch(const void *p) {
#ifdef __CUDA_ARCH__
  asm volatile("prefetch.global.L2 [%0];" ::"l"(p));
#else
  (void)p;
#endif
}

/* ---- groups -------------------------------------------------------------- */

/* A lane's place in its group of W. */
template <int W> struct ts_group {
  int lane;
  __device__ ts_group() : lane((int)(threadIdx.x % W)) {
  }
};

/* The largest X of the warp's groups; X is one for a group. */
template <int W> __device__ inline int ts_warp_max(int x) {
  for (int m = W; m < 32; m *= 2) {
    const int y = __shfl_xor_sync(0xffffffffu, x, m);
    x = x > y ? x : y;
  }
  return x;
}

/* A sum over a row: each lane has its quads', in order. */
template <int W> struct ts_parts {
  ts_real part = {};

  /* Adds Q, whose first N columns are there. */
  __device__ void add(ts_quad q, int n) {
    if (n > 0 && n < 4)
      for (int k = 1; k < 4; k++)
        if (k >= n) q.x[k].x = 0;
    ts_real sum = (q.x[0] + q.x[1]) + (q.x[2] + q.x[3]);
    if (n <= 0) sum.x = 0;
    part = part + sum;
  }
  /* In every lane. */
  __device__ ts_real total() const {
    ts_real p = part;
#pragma unroll
    for (int half = W / 2; half > 0; half /= 2)
      p = p + ts_real{__shfl_xor_sync(0xffffffffu, p.x, half)};
    return p;
  }
};

/* ---- rows ---------------------------------------------------------------- */

/* Number of the table that holds group row KEY. */
__device__ inline int ts_row_table_of(const ts_row_place &r, uint32_t key) {
  int low = 0, high = r.n_tables - 1;
  while (low < high) {
    const int mid = (low + high + 1) / 2;
    if (r.table[mid].base <= (int64_t)key)
      low = mid;
    else
      high = mid - 1;
  }
  return low;
}

/* A group's row: KEY, which lies at AT; ACTIVE false: none, and nothing is
 * read or written. */
struct ts_row_id {
  uint32_t key, at;
  bool active;
};

/* Element COLUMN of ID's row, in weights (k = -1) or state k. */
__device__ inline int64_t ts_row_at(const ts_row_place &r, const ts_row_id &id,
                                    int column, int k) {
  const int64_t at = (int64_t)id.at * r.dim + column;
  return id.at >= r.first_line ? at + r.shift[1 + k] : at;
}

/* The columns of one lane in one sweep. */
struct ts_columns {
  int at, n; /* n <= 0: none */
  __device__ ts_columns(int32_t dim, int sweep, int width, int lane)
      : at(4 * (sweep * width + lane)), n(dim - at < 4 ? dim - at : 4) {
  }
};

/* ---- rows in few bits ---------------------------------------------------- */

__device__ inline char *ts_few_row(const ts_row_place &r, const ts_row_id &id) {
  char *row =
      (char *)r.weight + (uint64_t)id.at * (4 * ts_few_pitch(r.dtype, r.dim));
  return id.at >= r.first_line ? row + r.shift[0] : row;
}

/* Bytes of COLUMNS of them. */
__device__ inline uint32_t ts_few_bytes(const ts_row_place &r, int columns) {
  return r.dtype == TS_INT8 ? columns : (columns + 1) / 2;
}

/* As ts_row_load. */
__device__ inline ts_quad
ts_few_load(const ts_row_place &r, const ts_row_id &id, const ts_columns &c) {
  const char *row = ts_few_row(r, id);
  const bool wide = r.dtype == TS_INT8;
  const char *at = row + ts_few_bytes(r, c.at);
  const uint32_t v = wide ? *(const uint32_t *)at : *(const uint16_t *)at;
  const ts_few_tail tail =
      ts_few_tail_of((const uint32_t *)row, ts_few_bytes(r, r.dim));
  ts_quad q;
#pragma unroll
  for (int k = 0; k < 4; k++)
    q.x[k].x =
        fmaf(tail.scale,
             wide ? ts_few_number<TS_INT8>(v, k) : ts_few_number<TS_INT4>(v, k),
             tail.bias);
  return q;
}

/* The least and the last number of a row, of which each lane has some. */
struct ts_few_range {
  int32_t least = INT32_MAX, last = INT32_MIN;

  __device__ void add(const ts_quad &q, int n) {
#pragma unroll
    for (int k = 0; k < 4; k++) {
      const int32_t x = ts_few_bits_order(q.x[k].x);
      if (k < n && x < least) least = x;
      if (k < n && x > last) last = x;
    }
  }
  /* In every lane. */
  template <int W> __device__ void share() {
#pragma unroll
    for (int half = W / 2; half > 0; half /= 2) {
      const int32_t x = __shfl_xor_sync(0xffffffffu, least, half);
      const int32_t y = __shfl_xor_sync(0xffffffffu, last, half);
      least = x < least ? x : least;
      last = y > last ? y : last;
    }
  }
  template <int W> __device__ ts_few_bits code(const ts_row_place &r) {
    share<W>();
    return ts_few_bits_of(least, last, ts_few_bits_most(r.dtype));
  }
};

/* As ts_row_store, without scale and bias. */
__device__ inline void ts_few_store(const ts_row_place &r, const ts_row_id &id,
                                    const ts_columns &c, const ts_row_table &t,
                                    const ts_quad &w, const ts_few_bits &f) {
  uint32_t words[4], all = 0;
  const bool wide = r.dtype == TS_INT8;
  const int64_t row =
      r.row_id ? r.row_id[id.key] : t.first_row + id.key - t.base;
  ts_philox_words(words, (uint64_t)row, r.step,
                  t.first_quad + (uint32_t)c.at / 4, t.rounding_key);
#pragma unroll
  for (int k = 0; k < 4; k++) {
    const uint32_t q = (uint32_t)ts_few_bits_round(
        w.x[k].x, f, ts_few_bits_most(r.dtype), words[k]);
    if (k < c.n) all |= q << (wide ? 8 : 4) * k;
  }
  char *to = ts_few_row(r, id) + ts_few_bytes(r, c.at);
  if (c.n == 4 && wide) {
    *(uint32_t *)to = all;
  } else if (c.n == 4) {
    *(uint16_t *)to = (uint16_t)all;
  } else {
#pragma unroll
    for (uint32_t k = 0; k < 3; k++)
      if (k < ts_few_bytes(r, c.n)) to[k] = (char)(all >> 8 * k);
  }
}

template <int W>
__device__ inline void
ts_few_store_tail(const ts_row_place &r, const ts_row_id &id,
                  const ts_few_bits &f, const ts_group<W> &group) {
  if (!id.active || group.lane > 1) return;
  const uint32_t x = ts_bits_of(group.lane ? f.bias : f.scale);
  uint8_t *to =
      (uint8_t *)ts_few_row(r, id) + ts_few_bytes(r, r.dim) + 4 * group.lane;
  for (int k = 0; k < 4; k++) to[k] = (uint8_t)(x >> 8 * k);
}

/* A row that its lanes hold. */
template <int W>
__device__ inline void ts_few_finish(const ts_row_place &r, const ts_row_id &id,
                                     const ts_columns &c, const ts_row_table &t,
                                     const ts_quad &w, const ts_few_bits &f,
                                     const ts_group<W> &group) {
  if (id.active && c.n > 0) ts_few_store(r, id, c, t, w, f);
  ts_few_store_tail(r, id, f, group);
}

/* Statistics of round K. */
template <class O> __device__ inline int ts_stats_of(int k) {
  return k == 0 ? O::STATS0 : O::STATS1;
}

/* An optimizer's kernels of rows in few bits have its formulas under another
 * name, so that those of other rows stay as they are. */
template <class O> struct ts_few : O {};
template <class O> constexpr bool ts_is_few = false;
template <class O> constexpr bool ts_is_few<ts_few<O>> = true;

/* Weights and states of the columns of one lane. */
template <class O> struct ts_elements {
  ts_quad w, state[2];

  __device__ void load(const ts_row_place &r, const ts_row_id &id,
                       const ts_columns &c) {
    w = state[0] = state[1] = {};
    if (!id.active || c.n <= 0) return;
    if constexpr (ts_is_few<O>)
      w = ts_few_load(r, id, c);
    else
      w = ts_row_load(r, ts_row_at(r, id, c.at, -1), c.n);
    for (int k = 0; k < O::ELEMENTS; k++)
      state[k] = ts_quad_load(r.state[k] + ts_row_at(r, id, c.at, k), c.n,
                              r.wide_loads);
  }
  __device__ void store_states(const ts_row_place &r, const ts_row_id &id,
                               const ts_columns &c) const {
    if (!id.active || c.n <= 0) return;
    for (int k = 0; k < O::ELEMENTS; k++)
      ts_quad_store(r.state[k] + ts_row_at(r, id, c.at, k), state[k], c.n,
                    r.wide_loads);
  }
  __device__ void store(const ts_row_place &r, const ts_row_id &id,
                        const ts_columns &c, const ts_row_table &t) const {
    if (!id.active || c.n <= 0) return;
    const int64_t at = ts_row_at(r, id, c.at, -1);
    ts_row_store(r, at, w, c.n, t, id.key, (uint32_t)c.at);
    store_states(r, id, c);
  }
  /* Adds to the parts of round K. */
  template <int W>
  __device__ void round(const O &o, int k, const ts_quad &g, int n,
                        ts_parts<W> *parts) {
    ts_quad x = {}, y = {};
    for (int i = 0; i < 4; i++)
      o.round(k, w.x[i], g.x[i], state[0].x[i], state[1].x[i], x.x[i], y.x[i]);
    parts[0].add(x, n);
    if (ts_stats_of<O>(k) == 2) parts[1].add(y, n);
  }
  __device__ void apply(const O &o, const ts_quad &g) {
    for (int i = 0; i < 4; i++)
      o.apply(w.x[i], g.x[i], state[0].x[i], state[1].x[i]);
  }
};

/* The sums of round K as the next ones see them. */
template <class O, int W>
__device__ inline void ts_row_stats(ts_real *stat, int k,
                                    const ts_parts<W> *parts) {
  for (int i = 0; i < ts_stats_of<O>(k); i++) {
    const ts_real sum = parts[i].total();
    stat[i] = k == 1 ? sum : stat[i] + sum;
  }
}

/* The rounds of an update of a row that its lanes hold, and its end: E its
 * elements, of which N are this lane's, G its gradient, ROW its own state. */
template <class O, int W>
__device__ inline void ts_row_rounds(O &o, ts_elements<O> &e, const ts_quad &g,
                                     int n, ts_real &row, ts_real row_dim) {
  ts_real stat[TS_ROW_STATS_MAX] = {};
#pragma unroll
  for (int k = 0; k < O::ROUNDS; k++) {
    ts_parts<W> parts[TS_ROW_STATS_MAX];
    o.before(k, row, stat, row_dim);
    e.round(o, k, g, n, parts);
    ts_row_stats<O, W>(stat, k, parts);
  }
  o.before(O::ROUNDS, row, stat, row_dim);
  e.apply(o, g);
}

/* The factor that cuts a row to the norm MOST (1: it is short enough), from the
 * squares that the lanes have.  All lanes of the warp call it. */
template <int W>
__device__ inline ts_real ts_row_cap(const ts_parts<W> &squares, float most) {
  const ts_real norm = ts_sqrt(squares.total()), one = {1};
  if (!(most > 0) || !(norm.x > most)) return one;
  return ts_real{most} / (norm + ts_real{1e-7f});
}

template <int W>
__device__ inline void ts_row_add_squares(ts_parts<W> &to, const ts_quad &w,
                                          int n) {
  ts_quad x;
  for (int i = 0; i < 4; i++) x.x[i] = w.x[i] * w.x[i];
  to.add(x, n);
}

__device__ inline void ts_row_scale(ts_quad &w, ts_real by) {
  for (int i = 0; i < 4; i++) w.x[i] = w.x[i] * by;
}

template <class O, int W>
__device__ inline void
ts_row_update_held(const ts_row_place &r, const ts_row_id &id,
                   const ts_row_table &t, const ts_group<W> &group,
                   ts_elements<O> &e, const ts_quad &g, ts_real row) {
  const ts_columns c(r.dim, 0, W, group.lane);
  O o = {};
  o.open(t.hyper);
  ts_row_rounds<O, W>(o, e, g, c.n, row, ts_real{(float)t.row_dim});
  if (r.caps) {
    ts_parts<W> squares;
    ts_row_add_squares(squares, e.w, c.n);
    ts_row_scale(e.w, ts_row_cap(squares, t.hyper.max_norm));
  }
  if constexpr (ts_is_few<O>) {
    ts_few_range range;
    if (id.active) range.add(e.w, c.n);
    ts_few_finish<W>(r, id, c, t, e.w, range.code<W>(r), group);
    e.store_states(r, id, c);
  } else {
    e.store(r, id, c, t);
  }
  if constexpr (O::ROW >= 0)
    if (id.active && group.lane == 0) r.state[O::ROW][id.key] = row.x;
}

/* One round, of a row of any width with its gradient in memory. */
template <class O, int W>
__device__ inline void
ts_row_do_round(const ts_row_place &r, const ts_row_id &id, const O &o, int k,
                const float *grad, const ts_group<W> &group, ts_real *stat) {
  ts_parts<W> parts[TS_ROW_STATS_MAX];
  for (int sweep = 0; sweep * 4 * W < r.dim; sweep++) {
    const ts_columns c(r.dim, sweep, W, group.lane);
    ts_elements<O> e;
    ts_quad g = {};
    e.load(r, id, c);
    if (id.active && c.n > 0) g = ts_quad_load(grad + c.at, c.n, r.wide_loads);
    e.round(o, k, g, c.n, parts);
    if (O::MOVES == k) e.store_states(r, id, c);
  }
  ts_row_stats<O, W>(stat, k, parts);
}

/* ts_row_cap of what the row's end will make of it. */
template <class O, int W>
__device__ inline ts_real
ts_row_find_cap(const ts_row_place &r, const ts_row_id &id,
                const ts_row_table &t, const O &o, const float *grad,
                const ts_group<W> &group) {
  ts_parts<W> squares;
  for (int sweep = 0; sweep * 4 * W < r.dim; sweep++) {
    const ts_columns c(r.dim, sweep, W, group.lane);
    ts_elements<O> e;
    ts_quad g = {};
    e.load(r, id, c);
    if (id.active && c.n > 0) g = ts_quad_load(grad + c.at, c.n, r.wide_loads);
    e.apply(o, g);
    ts_row_add_squares(squares, e.w, c.n);
  }
  return ts_row_cap(squares, t.hyper.max_norm);
}

/* body(columns, elements) of what the end of a row makes of it. */
template <class O, int W, class Body>
__device__ inline void ts_few_each(const ts_row_place &r, const ts_row_id &id,
                                   const O &o, const float *grad,
                                   const ts_group<W> &group, ts_real by,
                                   Body body) {
#pragma unroll 1
  for (int sweep = 0; sweep * 4 * W < r.dim; sweep++) {
    const ts_columns c(r.dim, sweep, W, group.lane);
    ts_elements<O> e;
    if (!id.active || c.n <= 0) continue;
    e.load(r, id, c);
    e.apply(o, ts_quad_load(grad + c.at, c.n, r.wide_loads));
    ts_row_scale(e.w, by);
    body(c, e);
  }
}

/* The end of a row in few bits: once for its range, then once more for its
 * numbers; scale and bias come last, as the numbers are read by them. */
template <class O, int W>
__device__ inline void
ts_few_do_apply(const ts_row_place &r, const ts_row_id &id,
                const ts_row_table &t, const O &o, const float *grad,
                const ts_group<W> &group, ts_real by) {
  ts_few_range range;
  ts_few_each<O, W>(r, id, o, grad, group, by,
                    [&](const ts_columns &c, const ts_elements<O> &e) {
                      range.add(e.w, c.n);
                    });
  const ts_few_bits f = range.code<W>(r);
  ts_few_each<O, W>(r, id, o, grad, group, by,
                    [&](const ts_columns &c, const ts_elements<O> &e) {
                      ts_few_store(r, id, c, t, e.w, f);
                      e.store_states(r, id, c);
                    });
  __syncwarp();
  ts_few_store_tail(r, id, f, group);
}

/* And its end; weights are multiplied BY. */
template <class O, int W>
__device__ inline void
ts_row_do_apply(const ts_row_place &r, const ts_row_id &id,
                const ts_row_table &t, const O &o, const float *grad,
                const ts_group<W> &group, ts_real by) {
  for (int sweep = 0; sweep * 4 * W < r.dim; sweep++) {
    const ts_columns c(r.dim, sweep, W, group.lane);
    ts_elements<O> e;
    if (!id.active || c.n <= 0) continue;
    e.load(r, id, c);
    e.apply(o, ts_quad_load(grad + c.at, c.n, r.wide_loads));
    ts_row_scale(e.w, by);
    e.store(r, id, c, t);
  }
}

/* The state of one float per row; 0 where there is none.  All lanes have it
 * before one of them stores. */
template <class O>
__device__ inline ts_real ts_row_state(const ts_row_place &r,
                                       const ts_row_id &id) {
  ts_real row = {};
  if constexpr (O::ROW >= 0) {
    if (id.active) row.x = r.state[O::ROW][id.key];
    __syncwarp();
  }
  return row;
}

/* An update of a row of any width with its gradient in memory. */
template <class O, int W>
__device__ inline void
ts_row_update_wide(const ts_row_place &r, const ts_row_id &id,
                   const ts_row_table &t, const ts_group<W> &group,
                   const float *grad) {
  const ts_real row_dim = {(float)t.row_dim};
  ts_real stat[TS_ROW_STATS_MAX] = {};
  ts_real row = ts_row_state<O>(r, id);
  O o = {};
  o.open(t.hyper);
#pragma unroll
  for (int k = 0; k < O::ROUNDS; k++) {
    o.before(k, row, stat, row_dim);
    ts_row_do_round<O, W>(r, id, o, k, grad, group, stat);
  }
  o.before(O::ROUNDS, row, stat, row_dim);
  ts_real by = {1};
  if (r.caps) by = ts_row_find_cap<O, W>(r, id, t, o, grad, group);
  if constexpr (ts_is_few<O>)
    ts_few_do_apply<O, W>(r, id, t, o, grad, group, by);
  else
    ts_row_do_apply<O, W>(r, id, t, o, grad, group, by);
  if constexpr (O::ROW >= 0)
    if (id.active && group.lane == 0) r.state[O::ROW][id.key] = row.x;
}
