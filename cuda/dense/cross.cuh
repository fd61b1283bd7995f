/* cross.cuh - what is done by element of rows (cross.cu, join.cu): a thread has
 * V columns of a row, as vectors where rows lie on their borders. */
#pragma once

#include "cuda/dense/half.cuh"
#include "cuda/runtime/cuda_impl.h"
#include "cuda/runtime/store.cuh"

/* With fewer blocks a multiprocessor compilers spill nothing. */
enum { TS_CROSS_THREADS = 256, TS_CROSS_BLOCKS = 4 };

/* V columns, a multiple of 4 of f32 and of 8 of bf16. */
template <int V> struct ts_cols { float x[V]; };

/* N <= V of the columns at P; WIDE: all, as vectors. */
template <int V, bool WIDE>
static __device__ __forceinline__ ts_cols<V> ts_cols_get(const float *p,
                                                         int n) {
  ts_cols<V> c;
#pragma unroll
  for (int i = 0; i < V; i += 4)
    if (WIDE) {
      const float4 v = *(const float4 *)(p + i);
      c.x[i] = v.x, c.x[i + 1] = v.y, c.x[i + 2] = v.z, c.x[i + 3] = v.w;
    } else {
#pragma unroll
      for (int k = i; k < i + 4; k++) c.x[k] = k < n ? p[k] : 0;
    }
  return c;
}
template <int V, bool WIDE>
static __device__ __forceinline__ void ts_cols_put(float *p, int n,
                                                   const ts_cols<V> &c) {
#pragma unroll
  for (int i = 0; i < V; i += 4)
    if (WIDE) {
      ts_store((float4 *)(p + i),
               make_float4(c.x[i], c.x[i + 1], c.x[i + 2], c.x[i + 3]));
    } else {
#pragma unroll
      for (int k = i; k < i + 4; k++)
        if (k < n) p[k] = c.x[k];
    }
}
template <int V, bool WIDE>
static __device__ __forceinline__ ts_cols<V> ts_cols_get(const uint16_t *p,
                                                         int n) {
  ts_cols<V> c;
#pragma unroll
  for (int i = 0; i < V; i += 8)
    if (WIDE) {
      const uint4 v = *(const uint4 *)(p + i);
      const uint32_t pair[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
      for (int k = 0; k < 4; k++) {
        c.x[i + 2 * k] = ts_half_low(pair[k]);
        c.x[i + 2 * k + 1] = ts_half_high(pair[k]);
      }
    } else {
#pragma unroll
      for (int k = i; k < i + 8; k++) c.x[k] = k < n ? ts_wide_bf16(p[k]) : 0;
    }
  return c;
}
template <int V, bool WIDE>
static __device__ __forceinline__ void ts_cols_put(uint16_t *p, int n,
                                                   const ts_cols<V> &c) {
#pragma unroll
  for (int i = 0; i < V; i += 8)
    if (WIDE) {
      const float *x = c.x + i;
      ts_store((uint4 *)(p + i),
               make_uint4(ts_half_pair(x[0], x[1]), ts_half_pair(x[2], x[3]),
                          ts_half_pair(x[4], x[5]), ts_half_pair(x[6], x[7])));
    } else {
#pragma unroll
      for (int k = i; k < i + 8; k++)
        if (k < n) p[k] = ts_half_near(c.x[k]);
    }
}

template <int V>
static __device__ __forceinline__ ts_cols<V> ts_cols_sum(ts_cols<V> a,
                                                         const ts_cols<V> &b) {
#pragma unroll
  for (int i = 0; i < V; i++) a.x[i] = __fadd_rn(a.x[i], b.x[i]);
  return a;
}
template <int V>
static __device__ __forceinline__ ts_cols<V>
ts_cols_product(ts_cols<V> a, const ts_cols<V> &b) {
#pragma unroll
  for (int i = 0; i < V; i++) a.x[i] = __fmul_rn(a.x[i], b.x[i]);
  return a;
}

/* Calls body(row, column, n) for all V columns of the rows; up to a warp has a
 * row. */
template <int V, class Body>
static __device__ __forceinline__ void ts_cross_each(int64_t rows,
                                                     int32_t width, Body body) {
  const int shift = ts_lanes_shift((width + V - 1) / V);
  const int64_t groups = TS_CROSS_THREADS >> shift;
  const int32_t lane = (int32_t)threadIdx.x & ((1 << shift) - 1);
  for (int64_t i = blockIdx.x * groups + (threadIdx.x >> shift); i < rows;
       i += gridDim.x * groups)
#pragma unroll 2
    for (int32_t c = V * lane; c < width; c += V << shift)
      body(i, c, (int)min(V, width - c));
}

/* Whether P, or NULL, lies on a border of a vector. */
TS_CUDA_BOTH static inline bool ts_cross_fits(const void *p) {
  return (uintptr_t)p % 16 == 0;
}

template <int V>
static inline ts_cuda_shape ts_cross_shape(int64_t rows, int32_t width) {
  const int64_t groups =
      TS_CROSS_THREADS >> ts_lanes_shift((width + V - 1) / V);
  return ts_cuda_strided(rows, groups, TS_CROSS_THREADS);
}
