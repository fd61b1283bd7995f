/* columns.cuh - two sums over the rows of each column, in double.
 *
 * A block has 32 columns of a few hundred rows, a thread every eighth of them
 * in one column; the threads' sums are added in their order, then the blocks'
 * in the same way.  How rows are cut depends on their number alone. */
#pragma once

#include "cuda/runtime/cuda_impl.h"

enum {
  TS_COLUMNS_WIDTH = 32,
  TS_COLUMNS_LANES = 8,
  TS_COLUMNS_ROWS = 256,  /* of a block, at least */
  TS_COLUMNS_PARTS = 1024 /* blocks for a column, at most */
};

struct ts_pair {
  double x, y;
};

/* The sum of the threads of a column, in their order; thread 0 has it. */
static __device__ __forceinline__ ts_pair ts_columns_add(ts_pair mine) {
  __shared__ ts_pair all[TS_COLUMNS_LANES][TS_COLUMNS_WIDTH];
  all[threadIdx.y][threadIdx.x] = mine;
  __syncthreads();
  ts_pair sum = {0, 0};
  for (int k = 0; threadIdx.y == 0 && k < TS_COLUMNS_LANES; k++) {
    sum.x += all[k][threadIdx.x].x;
    sum.y += all[k][threadIdx.x].y;
  }
  return sum;
}

/* F: a struct whose at(r, c) gives a pair on the device. */
template <class F>
static __global__ void __launch_bounds__(TS_COLUMNS_WIDTH *TS_COLUMNS_LANES)
    ts_columns_kernel(const __grid_constant__ F f, int64_t rows, int32_t n,
                      int64_t each, ts_pair *parts) {
  const int64_t c = (int64_t)blockIdx.x * TS_COLUMNS_WIDTH + threadIdx.x;
  const int64_t from = blockIdx.y * each, end = min(from + each, rows);
  ts_pair sum = {0, 0};
  if (c < n)
#pragma unroll 4
    for (int64_t r = from + threadIdx.y; r < end; r += TS_COLUMNS_LANES) {
      const ts_pair p = f.at(r, (int32_t)c);
      sum.x += p.x;
      sum.y += p.y;
    }
  sum = ts_columns_add(sum);
  if (threadIdx.y == 0 && c < n) parts[blockIdx.y * (int64_t)n + c] = sum;
}

template <class T>
static __global__ void __launch_bounds__(TS_COLUMNS_WIDTH *TS_COLUMNS_LANES)
    ts_columns_sum_kernel(const ts_pair *parts, int64_t n_parts, int32_t n,
                          T *x, T *y) {
  const int64_t c = (int64_t)blockIdx.x * TS_COLUMNS_WIDTH + threadIdx.x;
  ts_pair sum = {0, 0};
  if (c < n)
    for (int64_t p = threadIdx.y; p < n_parts; p += TS_COLUMNS_LANES) {
      sum.x += parts[p * n + c].x;
      sum.y += parts[p * n + c].y;
    }
  sum = ts_columns_add(sum);
  if (threadIdx.y || c >= n) return;
  if (x) x[c] = (T)sum.x;
  if (y) y[c] = (T)sum.y;
}

/* x[c], y[c] = sums over ROWS of F's pairs; either may be NULL.  Enqueues. */
template <class F, class T>
static ts_err ts_columns(const F &f, int64_t rows, int32_t n, T *x, T *y) {
  ts_err err = TS_OK;
  ts_pair *parts = NULL;
  const int64_t each =
      ts_round_up(ts_ceil_div(rows, TS_COLUMNS_PARTS), TS_COLUMNS_ROWS);
  const int64_t n_parts = rows ? ts_ceil_div(rows, each) : 0;
  const size_t bytes = (size_t)(n_parts * n) * sizeof *parts;
  const dim3 block(TS_COLUMNS_WIDTH, TS_COLUMNS_LANES);
  const unsigned wide = ts_grid(n, TS_COLUMNS_WIDTH, TS_GRID_X_MAX);
  if (n == 0 || (!x && !y)) return TS_OK;
  TS_TRY(ts_cuda_take(&parts, bytes, TS_TAG_ACTIVATIONS));
  if (n_parts)
    TS_TRY(TS_CUDA_LAUNCH(ts_columns_kernel<F>,
                          {dim3(wide, (unsigned)n_parts), block}, f, rows, n,
                          each, parts));
  TS_TRY(TS_CUDA_LAUNCH(ts_columns_sum_kernel<T>, {wide, block}, parts, n_parts,
                        n, x, y));
done:
  ts_cuda_give(parts, bytes, TS_TAG_ACTIVATIONS);
  return err;
}
