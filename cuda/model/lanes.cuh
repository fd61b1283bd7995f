/* lanes.cuh - a row by a warp. */
#pragma once

#include "cuda/runtime/cuda_impl.h"

static __device__ __forceinline__ float ts_warp_sum(float x) {
  for (int by = 16; by > 0; by /= 2) x += __shfl_xor_sync(0xffffffff, x, by);
  return x;
}

static __device__ __forceinline__ float ts_warp_max(float x) {
  for (int by = 16; by > 0; by /= 2)
    x = fmaxf(x, __shfl_xor_sync(0xffffffff, x, by));
  return x;
}

enum { TS_WARPS_THREADS = 256, TS_WARPS = TS_WARPS_THREADS / 32 };

/* body(i) for this warp's of N. */
template <class Body>
static __device__ __forceinline__ void ts_warps_each(int64_t n, Body body) {
  for (int64_t i = ((int64_t)blockIdx.x * TS_WARPS_THREADS + threadIdx.x) / 32;
       i < n; i += (int64_t)gridDim.x * TS_WARPS)
    body(i);
}

static inline ts_cuda_shape ts_warps_shape(int64_t n) {
  return {ts_grid(n, TS_WARPS, 4096), TS_WARPS_THREADS};
}

/* body(c) for this lane's columns. */
template <class Body>
static __device__ __forceinline__ void ts_lanes_each(int32_t n, Body body) {
#pragma unroll 4
  for (int32_t c = (int32_t)threadIdx.x % 32; c < n; c += 32) body(c);
}
