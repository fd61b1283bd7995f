/* lanes.cuh - a row by a warp. */
#pragma once

#include "cuda/runtime/cuda_impl.h"

static __device__ __forceinline__ float ts_warp_sum(float x) {
  for (int by = 16; by > 0; by /= 2) x += __shfl_xor_sync(0xffffffff, x, by);
  return x;
}

/* body(c) for this lane's columns. */
template <class Body>
static __device__ __forceinline__ void ts_lanes_each(int32_t n, Body body) {
#pragma unroll 4
  for (int32_t c = (int32_t)threadIdx.x % 32; c < n; c += 32) body(c);
}
