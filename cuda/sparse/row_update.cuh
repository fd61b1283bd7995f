/* row_update.cuh - how a group of lanes (row_quads.cuh) updates a row. */
#pragma once

#include "cuda/sparse/row_few_bits.cuh"

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
