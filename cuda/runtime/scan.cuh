/* scan.cuh - sums over all that comes before, in rows that one block goes
 * through.  They are of integers: the order doesn't matter. */
#pragma once

#include <stdint.h>

enum { TS_SCAN_BLOCK = 256, TS_SCAN_EACH = 4 };

/* The sum of VALUE over the block's threads before this one; *ALL: of all. */
template <class T>
static __device__ __forceinline__ T ts_scan_block(T value, T *all) {
  __shared__ T sums[TS_SCAN_BLOCK / 32];
  const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
  T sum = value, before = 0;
  for (int by = 1; by < 32; by *= 2) {
    const T x = __shfl_up_sync(0xffffffff, sum, (unsigned)by);
    if (lane >= by) sum += x;
  }
  if (lane == 31) sums[warp] = sum;
  __syncthreads();
  *all = 0;
  for (int i = 0; i < TS_SCAN_BLOCK / 32; i++) {
    if (i < warp) before += sums[i];
    *all += sums[i];
  }
  __syncthreads();
  return before + sum - value;
}

/* put(i, sum of get(k) for k < i) for all i < N; returns the sum of all.  The
 * whole block comes.  get(i) is called before put(i), by the same thread. */
template <class T, class Get, class Put>
static __device__ __forceinline__ T ts_scan_row(int64_t n, Get get, Put put) {
  T done = 0;
  for (int64_t tile = 0; tile < n; tile += TS_SCAN_BLOCK * TS_SCAN_EACH) {
    const int64_t first = tile + (int64_t)threadIdx.x * TS_SCAN_EACH;
    T x[TS_SCAN_EACH], sum = 0, all;
    for (int e = 0; e < TS_SCAN_EACH; e++) {
      x[e] = first + e < n ? (T)get(first + e) : 0;
      sum += x[e];
    }
    sum = done + ts_scan_block<T>(sum, &all);
    for (int e = 0; e < TS_SCAN_EACH; e++) {
      if (first + e < n) put(first + e, sum);
      sum += x[e];
    }
    done += all;
  }
  return done;
}
