/* grid.h - how many blocks a launch has.  Plain C: it is tested without a
 * GPU.  All of it is Local. */
#pragma once

#include <stdint.h>

#ifdef __CUDACC__
#define TS_CUDA_BOTH __host__ __device__
#else
#define TS_CUDA_BOTH
#endif

/* Blocks of a grid in x, and in y or z, of every compute capability. */
#define TS_GRID_X_MAX INT64_C(2147483647)
#define TS_GRID_YZ_MAX INT64_C(65535)

/* A / B rounded up; A >= 0, B > 0, without overflow. */
TS_CUDA_BOTH static inline int64_t ts_ceil_div(int64_t a, int64_t b) {
  return a / b + (a % b != 0);
}

/* A rounded up to a multiple of B. */
TS_CUDA_BOTH static inline int64_t ts_round_up(int64_t a, int64_t b) {
  return ts_ceil_div(a, b) * b;
}

/* Blocks for N pieces of work with PER_BLOCK in each, at most MOST: 1 where N
 * is 0 (a grid of none is an error), so kernels test their index, and go on
 * with a stride of the grid where MOST may have cut it. */
TS_CUDA_BOTH static inline unsigned ts_grid(int64_t n, int64_t per_block,
                                            int64_t most) {
  const int64_t blocks = n > 0 ? ts_ceil_div(n, per_block) : 1;
  const int64_t limit = most < TS_GRID_X_MAX ? most : TS_GRID_X_MAX;
  return (unsigned)(blocks < limit ? blocks : limit > 0 ? limit : 1);
}

/* Lanes of a warp for rows of N pieces: 1 << this. */
TS_CUDA_BOTH static inline int ts_lanes_shift(int64_t n) {
  int shift = 0;
  while (shift < 5 && INT64_C(1) << shift < n) shift++;
  return shift;
}
