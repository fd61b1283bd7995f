/* row_sum.cuh - sums of the entries of a run, or of a piece of one. */
#pragma once

#include "cuda/sparse/row_update.cuh"

__device__ inline uint32_t ts_run_end(const ts_row_work &a, uint32_t run,
                                      uint32_t n_runs) {
  return run + 1 < n_runs ? a.start[run + 1] : (uint32_t)a.n;
}

/* The first float of an entry's gradient, and its factor where entries are
 * SCALED.  Without weights an entry is its bag. */
struct ts_row_entry {
  int64_t at;
  float scale;
};

__device__ inline ts_row_entry ts_row_entry_of(const ts_row_work &a,
                                               uint32_t order, bool scaled) {
  ts_row_entry e;
  if (!scaled) return {a.grad_at[order], 1.0f};
  const uint32_t bag = a.bag_of ? a.bag_of[order] : order;
  e.at = a.grad_at[bag];
  e.scale = a.weights ? a.weights[order] : 1.0f;
  if (a.bag_scale) e.scale = (ts_real{e.scale} * ts_real{a.bag_scale[bag]}).x;
  return e;
}

/* Sum of the entries [from, to) in order, the columns C of it; E is entry
 * from + lane, where there is one; SCALED false: entries have no factors.  A
 * warp's groups go as far as the longest;
 * four rows of gradients are on their way at once. */
template <int W>
__device__ inline ts_quad
ts_row_sum(const ts_row_work &a, uint32_t from, uint32_t to, ts_row_entry e,
           const ts_group<W> &group, const ts_columns &c, bool scaled) {
  enum { AHEAD = 4 };
  const int n = (int)(to - from), most = ts_warp_max<W>(n);
  ts_quad sum = {};
  for (int base = 0; base < most; base += W) {
    const int last = most - base < W ? most - base : W;
    if (base > 0 && base + group.lane < n)
      e = ts_row_entry_of(a, a.order[from + (uint32_t)(base + group.lane)],
                          scaled);
    for (int u = 0; u < last; u += AHEAD) {
      ts_quad g[AHEAD];
      ts_real s[AHEAD];
#pragma unroll
      for (int v = 0; v < AHEAD; v++) {
        const int64_t at = __shfl_sync(0xffffffffu, e.at, u + v, W);
        s[v].x = scaled ? __shfl_sync(0xffffffffu, e.scale, u + v, W) : 1.0f;
        g[v] = {};
        if (base + u + v < n && c.n > 0)
          g[v] = ts_quad_load(a.grad + at + c.at, c.n,
                              a.rows.wide_loads && at % 4 == 0);
      }
#pragma unroll
      for (int v = 0; v < AHEAD; v++) {
        if (base + u + v >= n) continue;
        for (int k = 0; k < 4; k++) {
          const ts_real x = scaled ? s[v] * g[v].x[k] : g[v].x[k];
          sum.x[k] = base + u + v == 0 ? x : sum.x[k] + x;
        }
      }
    }
  }
  return sum;
}
