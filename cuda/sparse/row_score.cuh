/* row_score.cuh - norms of rows' sums to their scores (ts_row_update_args). */
#pragma once

#include "cuda/sparse/row_update.cuh"

/* The root of SQUARES to the row's score.  All lanes of the warp
 * call it. */
template <int W>
__device__ inline void ts_row_add_score(const ts_row_place &r,
                                        const ts_row_id &id,
                                        const ts_parts<W> &squares,
                                        const ts_group<W> &group) {
  const ts_real norm = ts_sqrt(squares.total());
  if (id.active && group.lane == 0)
    r.score[id.key] = (ts_real{r.score[id.key]} + norm).x;
}

/* The norm of sum G, the columns C of which a lane has. */
template <int W>
__device__ inline void
ts_row_score_held(const ts_row_place &r, const ts_row_id &id,
                  const ts_group<W> &group, const ts_columns &c,
                  const ts_quad &g) {
  ts_parts<W> squares;
  ts_row_add_squares(squares, g, c.n);
  ts_row_add_score(r, id, squares, group);
}

/* The norm of a sum in memory. */
template <int W>
__device__ inline void ts_row_score_wide(const ts_row_place &r,
                                         const ts_row_id &id,
                                         const ts_group<W> &group,
                                         const float *sum) {
  ts_parts<W> squares;
  for (int sweep = 0; sweep * 4 * W < r.dim; sweep++) {
    const ts_columns c(r.dim, sweep, W, group.lane);
    ts_quad g = {};
    if (id.active && c.n > 0) g = ts_quad_load(sum + c.at, c.n, r.wide_loads);
    ts_row_add_squares(squares, g, c.n);
  }
  ts_row_add_score(r, id, squares, group);
}
