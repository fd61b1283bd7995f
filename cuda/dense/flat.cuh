/* flat.cuh - what kernels over flat arrays share (flat.cu, dense_update.cu).
 * Bits are the host's (src/dense/flat.c): sums are cut as
 * src/dense/update_numbers.h says. */
#pragma once

#include "cuda/runtime/cuda_impl.h"
#include "cuda/runtime/each.cuh"

extern "C" {
#include "dense/update_numbers.h"
}

enum {
  TS_FLAT_THREADS = 256,
  TS_FLAT_CHUNK = 4096, /* floats of a block, of copies and updates */
  TS_SUM_THREADS = 128, /* 16 have a block of a sum */
  TS_SUM_GROUPS = TS_SUM_THREADS / TS_SUM_PARTS
};

/* P lies on a border of a vector of four floats. */
TS_CUDA_BOTH static inline bool ts_flat_fits(const void *p) {
  return (uintptr_t)p % 16 == 0;
}

/* Which of N pieces the block has, by the number of the FIRST block of each. */
static __device__ __forceinline__ int ts_flat_piece(const uint32_t *first,
                                                    int n) {
  return ts_last_at(n, blockIdx.x, [=](int i) { return first[i]; });
}

/* Sixteen neighbours' parts, in order; all of the warp call it. */
static __device__ __forceinline__ double ts_sum_parts(double part) {
  const int first = (int)(threadIdx.x % 32) / TS_SUM_PARTS * TS_SUM_PARTS;
  double sum = 0;
#pragma unroll
  for (int k = 0; k < TS_SUM_PARTS; k++)
    sum += __shfl_sync(0xffffffffu, part, first + k);
  return sum;
}

/* The block of the sum that a thread is at, and which of its parts it has. */
struct ts_sum_place {
  int64_t block, from, to;
  int part;
  __device__ explicit ts_sum_place(int64_t n)
      : block((int64_t)blockIdx.x * TS_SUM_GROUPS +
              (int)threadIdx.x / TS_SUM_PARTS),
        from(block * TS_SUM_BLOCK),
        to(from + TS_SUM_BLOCK < n ? from + TS_SUM_BLOCK : n),
        part((int)threadIdx.x % TS_SUM_PARTS) {
  }
};

/* to[j] += all sums[b][j], b < N, in order; K of them, 1 or 2. */
ts_err ts_sums_add(double *to, const double *sums, int k, int64_t n);

/* The K sums of N elements are added to TO: launch(shape, sums) makes those of
 * the blocks, in scratch. */
template <class Launch>
static ts_err ts_sums_of(double *to, int k, int64_t n, ts_tag tag,
                         Launch launch) {
  ts_err err = TS_OK;
  double *sums = NULL;
  const int64_t n_blocks = n > 0 ? ts_ceil_div(n, TS_SUM_BLOCK) : 0;
  const size_t bytes = (size_t)(k * n_blocks) * sizeof(double);
  if (!bytes) return TS_OK;
  TS_TRY(ts_cuda_take(&sums, bytes, tag));
  TS_TRY(launch(
      {ts_grid(n_blocks, TS_SUM_GROUPS, TS_GRID_X_MAX), TS_SUM_THREADS}, sums));
  TS_TRY(ts_sums_add(to, sums, k, n_blocks));
done:
  ts_cuda_give(sums, bytes, tag);
  return err;
}
