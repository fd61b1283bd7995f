/* flat.cuh - what kernels over flat arrays share (flat.cu, dense_update.cu).
 * Bits are the host's (src/dense/flat.c): sums are cut as
 * src/dense/update_numbers.h says. */
#ifndef TS_CUDA_FLAT_CUH
#define TS_CUDA_FLAT_CUH

#include "cuda/runtime/cuda_impl.h"

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

/* The last of N pieces that begins at BLOCK or before. */
static __device__ __forceinline__ int ts_flat_piece(const uint32_t *first,
                                                    int n, uint32_t block) {
  int low = 0;
  while (n > 1) {
    const int half = n / 2;
    if (first[low + half] <= block) low += half;
    n -= half;
  }
  return low;
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

/* A launch that makes sums of N_BLOCKS blocks. */
static inline ts_cuda_shape ts_sum_shape(int64_t n_blocks) {
  return {ts_grid(n_blocks, TS_SUM_GROUPS, TS_GRID_X_MAX), TS_SUM_THREADS};
}

/* to[j] += all sums[b][j], b < N, in order; K of them. */
template <int K> ts_err ts_sums_add(double *to, const double *sums, int64_t n);

#endif
