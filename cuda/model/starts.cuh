/* starts.cuh - where the parts of samples begin, by one block: samples are few
 * thousands. */
#pragma once

#include "cuda/runtime/cuda_impl.h"

enum { TS_STARTS_THREADS = 256 };

/* offsets[s] (n + 1) = the sum of length(k) over k < s.  All threads of the one
 * block call it. */
template <class Length>
static __device__ __forceinline__ void ts_starts(int64_t *offsets, int64_t n,
                                                 Length length) {
  __shared__ int64_t sum[TS_STARTS_THREADS];
  const int64_t each = ts_ceil_div(n, TS_STARTS_THREADS);
  const int64_t from = threadIdx.x * each;
  const int64_t to = from + each < n ? from + each : n;
  int64_t own = 0;
  for (int64_t s = from; s < to; s++) own += length(s);
  sum[threadIdx.x] = own;
  __syncthreads();
  int64_t at = 0;
  for (unsigned k = 0; k < threadIdx.x; k++) at += sum[k];
  for (int64_t s = from; s < to; s++) {
    offsets[s] = at;
    at += length(s);
    if (s == n - 1) offsets[n] = at;
  }
  if (n == 0 && threadIdx.x == 0) offsets[0] = 0;
}

/* Ids of bag S, which LENGTHS or BAGS says, or one in each. */
static __device__ __forceinline__ int64_t ts_bag_length(const int32_t *lengths,
                                                        const int64_t *bags,
                                                        int64_t s) {
  if (bags) return bags[s + 1] - bags[s];
  return lengths ? lengths[s] : 1;
}
