/* cross.cuh - what is done by element of rows (cross.cu, join.cu): a thread has
 * four columns of a row, as vectors where rows lie on their borders. */
#pragma once

#include "cuda/dense/half.cuh"
#include "cuda/runtime/cuda_impl.h"
#include "cuda/runtime/store.cuh"

enum { TS_CROSS_THREADS = 256 };

/* N <= 4 of the columns at P; WIDE: four, one vector. */
template <bool WIDE>
static __device__ __forceinline__ float4 ts_cross_get(const float *p, int n) {
  if (WIDE)
    return *(const float4 *)p;
  else
    return make_float4(p[0], n > 1 ? p[1] : 0, n > 2 ? p[2] : 0,
                       n > 3 ? p[3] : 0);
}
template <bool WIDE>
static __device__ __forceinline__ void ts_cross_put(float *p, int n, float4 x) {
  if (WIDE) {
    ts_store((float4 *)p, x);
  } else {
    p[0] = x.x;
    if (n > 1) p[1] = x.y;
    if (n > 2) p[2] = x.z;
    if (n > 3) p[3] = x.w;
  }
}
template <bool WIDE>
static __device__ __forceinline__ float4 ts_cross_get(const uint16_t *p,
                                                      int n) {
  if (WIDE) {
    const uint2 x = *(const uint2 *)p;
    return make_float4(ts_half_low(x.x), ts_half_high(x.x), ts_half_low(x.y),
                       ts_half_high(x.y));
  } else {
    return make_float4(ts_wide_bf16(p[0]), n > 1 ? ts_wide_bf16(p[1]) : 0,
                       n > 2 ? ts_wide_bf16(p[2]) : 0,
                       n > 3 ? ts_wide_bf16(p[3]) : 0);
  }
}
template <bool WIDE>
static __device__ __forceinline__ void ts_cross_put(uint16_t *p, int n,
                                                    float4 x) {
  if (WIDE) {
    ts_store((uint2 *)p,
             make_uint2(ts_half_pair(x.x, x.y), ts_half_pair(x.z, x.w)));
  } else {
    p[0] = ts_half_near(x.x);
    if (n > 1) p[1] = ts_half_near(x.y);
    if (n > 2) p[2] = ts_half_near(x.z);
    if (n > 3) p[3] = ts_half_near(x.w);
  }
}

static __device__ __forceinline__ float4 ts_cross_sum(float4 a, float4 b) {
  return make_float4(__fadd_rn(a.x, b.x), __fadd_rn(a.y, b.y),
                     __fadd_rn(a.z, b.z), __fadd_rn(a.w, b.w));
}
static __device__ __forceinline__ float4 ts_cross_product(float4 a, float4 b) {
  return make_float4(__fmul_rn(a.x, b.x), __fmul_rn(a.y, b.y),
                     __fmul_rn(a.z, b.z), __fmul_rn(a.w, b.w));
}

/* Calls body(row, column, n) for all fours of columns of the rows; up to a warp
 * has a row. */
template <class Body>
static __device__ __forceinline__ void ts_cross_each(int64_t rows,
                                                     int32_t width, Body body) {
  const int shift = ts_lanes_shift((width + 3) / 4);
  const int64_t groups = TS_CROSS_THREADS >> shift;
  const int32_t lane = (int32_t)threadIdx.x & ((1 << shift) - 1);
  for (int64_t i = blockIdx.x * groups + (threadIdx.x >> shift); i < rows;
       i += gridDim.x * groups)
#pragma unroll 2
    for (int32_t c = 4 * lane; c < width; c += 4 << shift)
      body(i, c, (int)min(4, width - c));
}

/* Whether P, or NULL, lies on a border of BYTES. */
static inline bool ts_cross_fits(const void *p, uintptr_t bytes) {
  return (uintptr_t)p % bytes == 0;
}

static inline ts_cuda_shape ts_cross_shape(int64_t rows, int32_t width) {
  const int64_t groups = TS_CROSS_THREADS >> ts_lanes_shift((width + 3) / 4);
  return ts_cuda_strided(rows, groups, TS_CROSS_THREADS);
}
