/* elements.cuh - what a layer does to each element of rows. */
#pragma once

#include "cuda/runtime/cuda_impl.h"
#include "cuda/runtime/each.cuh"

enum { TS_ELEMENTS_THREADS = 256 };

/* body(r, c) for all rows and columns; 64-bit divisions only where they have
 * to be. */
template <class Body>
static __device__ __forceinline__ void ts_elements(int64_t rows, int32_t n,
                                                   Body body) {
  const int64_t all = rows * n;
  if (all <= UINT32_MAX)
    ts_each<TS_ELEMENTS_THREADS>(all, [&](int64_t i) {
      const uint32_t r = (uint32_t)i / (uint32_t)n;
      body((int64_t)r, (int32_t)((uint32_t)i - r * (uint32_t)n));
    });
  else
    ts_each<TS_ELEMENTS_THREADS>(
        all, [&](int64_t i) { body(i / n, (int32_t)(i % n)); });
}

static inline ts_cuda_shape ts_elements_shape(int64_t n) {
  return ts_cuda_strided(n, TS_ELEMENTS_THREADS, TS_ELEMENTS_THREADS);
}
