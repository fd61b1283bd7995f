/* each.cuh - what a thread does of N pieces, and searches among starts. */
#pragma once

#include <stdint.h>

/* Calls body(i) for this thread's part of [0, N): the blocks of the grid in x,
 * of THREADS threads each, go on with a stride. */
template <int THREADS, class Body>
static __device__ __forceinline__ void ts_each(int64_t n, Body body) {
  const int64_t step = (int64_t)gridDim.x * THREADS;
  for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < n;
       i += step)
    body(i);
}

/* The last of the N things that begins at X or before, where begin(i) ascends
 * and begin(0) <= X. */
template <class I, class X, class Begin>
static __device__ __forceinline__ I ts_last_at(I n, X x, Begin begin) {
  I low = 0;
  while (n > 1) {
    const I half = n / 2;
    if (begin(low + half) <= x) low += half;
    n -= half;
  }
  return low;
}
