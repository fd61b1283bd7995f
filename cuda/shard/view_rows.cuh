/* view_rows.cuh - rows between views and what arrived: gathered, added by
 * lists of members, scaled (shard/view_kernels.h).
 *
 * A row of a block's grid is a piece.  As many lanes as a row has vectors, at
 * most 32, have rows of their own: what a warp reads and writes lies side by
 * side, and nobody divides.  Each has four rows (or eight members) under way
 * before it waits; loads past the end are of the last one again. */
#ifndef TS_CUDA_VIEW_ROWS_CUH
#define TS_CUDA_VIEW_ROWS_CUH

#include "cuda/runtime/grid.h"
#include "shard/view_kernels.h"

enum { TS_VIEW_THREADS = 256, TS_VIEW_ROWS = 4, TS_VIEW_MEMBERS = 8 };

/* ---- vectors ------------------------------------------------------------- */

/* V floats: 4 or 1. */
template <int V> struct ts_view_vector;
template <> struct ts_view_vector<1> {
  typedef float type;
};
template <> struct ts_view_vector<4> {
  typedef float4 type;
};

static __device__ __forceinline__ float ts_view_sum(float a, float b) {
  return __fadd_rn(a, b);
}
static __device__ __forceinline__ float4 ts_view_sum(float4 a, float4 b) {
  return make_float4(__fadd_rn(a.x, b.x), __fadd_rn(a.y, b.y),
                     __fadd_rn(a.z, b.z), __fadd_rn(a.w, b.w));
}
/* A choice, not a branch, which loads would wait behind. */
static __device__ __forceinline__ float ts_view_sum_if(bool there, float a,
                                                       float b) {
  const float sum = __fadd_rn(a, b);
  return there ? sum : a;
}
static __device__ __forceinline__ float4 ts_view_sum_if(bool there, float4 a,
                                                        float4 b) {
  return make_float4(
      ts_view_sum_if(there, a.x, b.x), ts_view_sum_if(there, a.y, b.y),
      ts_view_sum_if(there, a.z, b.z), ts_view_sum_if(there, a.w, b.w));
}
static __device__ __forceinline__ float ts_view_product(float a, float by) {
  return __fmul_rn(a, by);
}
static __device__ __forceinline__ float4 ts_view_product(float4 a, float by) {
  return make_float4(__fmul_rn(a.x, by), __fmul_rn(a.y, by), __fmul_rn(a.z, by),
                     __fmul_rn(a.w, by));
}
static __device__ __forceinline__ void ts_view_clear(float *x) {
  *x = 0;
}
static __device__ __forceinline__ void ts_view_clear(float4 *x) {
  *x = make_float4(0, 0, 0, 0);
}

/* Whether rows at P, STEP apart, are rows of whole vectors. */
TS_CUDA_BOTH static inline bool ts_view_fits(const float *p, int64_t step,
                                             int32_t n_cols) {
  return (uintptr_t)p % 16 == 0 && step % 4 == 0 && n_cols % 4 == 0;
}

/* ---- who does what ------------------------------------------------------- */

/* Lanes for rows of N vectors: 1 << this. */
TS_CUDA_BOTH static inline int ts_view_shift(int64_t n) {
  int shift = 0;
  while (shift < 5 && INT64_C(1) << shift < n) shift++;
  return shift;
}

/* The part of the running thread: rows from `row` on, `step` apart, and of
 * them the vectors from `lane` on, `lanes` apart. */
struct ts_view_part {
  int lane, lanes;
  int64_t row, step;
};
static __device__ __forceinline__ ts_view_part ts_view_part_of(int64_t n) {
  const int shift = ts_view_shift(n);
  const int64_t rows = TS_VIEW_THREADS >> shift;
  return {(int)(threadIdx.x & ((1u << shift) - 1)), 1 << shift,
          blockIdx.x * rows + (threadIdx.x >> shift), gridDim.x * rows};
}

/* ---- copies -------------------------------------------------------------- */

TS_CUDA_BOTH static inline bool ts_row_piece_fits(const ts_row_piece *p) {
  return ts_view_fits(p->to, p->to_step, p->n_cols) &&
         ts_view_fits(p->from, p->from_step, p->n_cols);
}

template <int V> static __device__ void ts_copy_piece(const ts_row_piece &p) {
  typedef typename ts_view_vector<V>::type vector;
  const ts_view_part t = ts_view_part_of(p.n_cols / V);
  if (p.count <= 0) return;
  for (int64_t i = t.row; i < p.n; i += TS_VIEW_ROWS * t.step) {
    const vector *from[TS_VIEW_ROWS];
    vector *to[TS_VIEW_ROWS];
    bool there[TS_VIEW_ROWS];
#pragma unroll
    for (int u = 0; u < TS_VIEW_ROWS; u++) {
      const int64_t row = min(i + u * t.step, (int64_t)p.n - 1);
      const int64_t at = (p.index ? __ldg(p.index + row) : row) - p.first;
      there[u] = i + u * t.step < p.n && at >= 0 && at < p.count;
      to[u] = (vector *)(p.to + row * p.to_step);
      from[u] = (const vector *)(p.from + (there[u] ? at : 0) * p.from_step);
    }
    for (int32_t c = t.lane; c < p.n_cols / V; c += t.lanes) {
      vector x[TS_VIEW_ROWS];
#pragma unroll
      for (int u = 0; u < TS_VIEW_ROWS; u++) x[u] = __ldg(from[u] + c);
#pragma unroll
      for (int u = 0; u < TS_VIEW_ROWS; u++)
        if (there[u]) to[u][c] = x[u];
    }
  }
}

static __global__ void __launch_bounds__(TS_VIEW_THREADS)
    ts_copy_rows_kernel(const __grid_constant__ ts_row_args a) {
  const ts_row_piece &p = a.piece[blockIdx.y];
  if (ts_row_piece_fits(&p))
    ts_copy_piece<4>(p);
  else
    ts_copy_piece<1>(p);
}

/* ---- sums ---------------------------------------------------------------- */

/* One vector of row J's sum: members in their order. */
template <class Vector>
static __device__ __forceinline__ Vector
ts_member_sum(const ts_row_piece &p, int32_t from, int32_t to, int32_t c) {
  Vector sum;
  ts_view_clear(&sum);
  for (int32_t k = from; k < to; k += TS_VIEW_MEMBERS) {
    int32_t row[TS_VIEW_MEMBERS];
    Vector x[TS_VIEW_MEMBERS];
#pragma unroll
    for (int u = 0; u < TS_VIEW_MEMBERS; u++)
      row[u] = __ldg(p.member + min(k + u, to - 1));
#pragma unroll
    for (int u = 0; u < TS_VIEW_MEMBERS; u++)
      x[u] = __ldg((const Vector *)(p.from + (int64_t)row[u] * p.from_step) +
                   c);
#pragma unroll
    for (int u = 0; u < TS_VIEW_MEMBERS; u++)
      sum = ts_view_sum_if(k + u < to, sum, x[u]);
  }
  return sum;
}

template <int V> static __device__ void ts_sum_piece(const ts_row_piece &p) {
  typedef typename ts_view_vector<V>::type vector;
  const ts_view_part t = ts_view_part_of(p.n_cols / V);
  for (int64_t j = t.row; j < p.count; j += t.step) {
    const int32_t from = __ldg(p.member_start + p.first + j);
    const int32_t to = __ldg(p.member_start + p.first + j + 1);
    vector *x = (vector *)(p.to + j * p.to_step);
    for (int32_t c = t.lane; c < p.n_cols / V; c += t.lanes)
      x[c] = ts_member_sum<vector>(p, from, to, c);
  }
}

static __global__ void __launch_bounds__(TS_VIEW_THREADS)
    ts_sum_rows_kernel(const __grid_constant__ ts_row_args a) {
  const ts_row_piece &p = a.piece[blockIdx.y];
  if (ts_row_piece_fits(&p))
    ts_sum_piece<4>(p);
  else
    ts_sum_piece<1>(p);
}

/* ---- scales -------------------------------------------------------------- */

template <int V>
static __device__ void ts_scale_piece_by(const ts_scale_piece &p) {
  typedef typename ts_view_vector<V>::type vector;
  const ts_view_part t = ts_view_part_of(p.n_cols / V);
  for (int64_t i = t.row; i < p.n; i += TS_VIEW_ROWS * t.step) {
    vector *row[TS_VIEW_ROWS];
    float by[TS_VIEW_ROWS];
#pragma unroll
    for (int u = 0; u < TS_VIEW_ROWS; u++) {
      const int64_t at = min(i + u * t.step, (int64_t)p.n - 1);
      row[u] = (vector *)(p.x + at * p.step);
      by[u] = __ldg(p.by + at);
    }
    for (int32_t c = t.lane; c < p.n_cols / V; c += t.lanes) {
      vector x[TS_VIEW_ROWS];
#pragma unroll
      for (int u = 0; u < TS_VIEW_ROWS; u++) x[u] = row[u][c];
#pragma unroll
      for (int u = 0; u < TS_VIEW_ROWS; u++)
        if (i + u * t.step < p.n) row[u][c] = ts_view_product(x[u], by[u]);
    }
  }
}

static __global__ void __launch_bounds__(TS_VIEW_THREADS)
    ts_scale_rows_kernel(const __grid_constant__ ts_scale_args a) {
  const ts_scale_piece &p = a.piece[blockIdx.y];
  if (ts_view_fits(p.x, p.step, p.n_cols))
    ts_scale_piece_by<4>(p);
  else
    ts_scale_piece_by<1>(p);
}

#endif
