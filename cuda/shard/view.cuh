/* view.cuh - how threads share the rows of a piece (view_rows.cu,
 * code_rows.cu).
 *
 * A row of a block's grid is a piece.  A group of as many lanes as a row has
 * vectors, at most 32, has rows of its own: a warp reads and writes places side
 * by side, and no thread divides.  Each has four rows (or eight members) under
 * way before it waits; loads past the end are of the last one again.
 *
 * Grids are as wide as their largest piece asks for, but of many rounds of the
 * GPU's at most: kernels go on with a stride.  Arguments travel by value, so
 * callers may go on at once. */
#pragma once

#include "cuda/runtime/cuda_impl.h"

extern "C" {
#include "shard/view_kernels.h"
}

enum { TS_VIEW_THREADS = 256, TS_VIEW_ROWS = 4, TS_VIEW_MEMBERS = 8 };

/* ---- vectors ------------------------------------------------------------- */

/* V floats: 4 or 1. */
template <int V> struct ts_view_vector;
template <> struct ts_view_vector<1> { typedef float type; };
template <> struct ts_view_vector<4> { typedef float4 type; };

static __device__ __forceinline__ float ts_view_sum(float a, float b) {
  return __fadd_rn(a, b);
}
static __device__ __forceinline__ float4 ts_view_sum(float4 a, float4 b) {
  return make_float4(__fadd_rn(a.x, b.x), __fadd_rn(a.y, b.y),
                     __fadd_rn(a.z, b.z), __fadd_rn(a.w, b.w));
}
/* Both are computed and one is chosen: loads would wait behind a branch. */
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

/* The part of the running thread: rows from `row` on, `step` apart, and of
 * them the vectors from `lane` on, `lanes` apart. */
struct ts_view_part {
  int lane, lanes;
  int64_t row, step;
};
static __device__ __forceinline__ ts_view_part ts_view_part_of(int64_t n) {
  const int shift = ts_lanes_shift(n);
  const int64_t rows = TS_VIEW_THREADS >> shift;
  return {(int)(threadIdx.x & ((1u << shift) - 1)), 1 << shift,
          blockIdx.x * rows + (threadIdx.x >> shift), gridDim.x * rows};
}

/* ---- launches ------------------------------------------------------------ */

/* Blocks of a piece with N rows of N_VECTORS, ROWS at once for a lane. */
static inline int64_t ts_view_blocks(int64_t n, int64_t n_vectors, int rows) {
  const int64_t per_block = TS_VIEW_THREADS >> ts_lanes_shift(n_vectors);
  return ts_ceil_div(n, per_block * rows);
}

/* launch(shape) of a grid for the pieces of A, as wide as the widest needs,
 * which is blocks(piece); none for pieces without rows. */
template <class Args, class Blocks, class Launch>
static ts_err ts_view_launch(const Args *a, Blocks blocks, Launch launch) {
  const int64_t most = 64 * (int64_t)ts_cuda_gpu_now()->n_sms;
  int64_t n = 0;
  for (int32_t k = 0; k < a->n_pieces; k++) {
    const int64_t own = blocks(&a->piece[k]);
    n = own > n ? own : n;
  }
  if (n == 0) return TS_OK;
  return launch(
      {dim3(ts_grid(n, 1, most), (unsigned)a->n_pieces), TS_VIEW_THREADS});
}
