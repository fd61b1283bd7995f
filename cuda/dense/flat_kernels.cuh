/* flat_kernels.cuh - kernels over flat arrays (the dense side of
 * runtime/kernels.h): copies, conversions, sums of squares.  Bits are the
 * host's (src/dense/flat.c): sums are cut as src/dense/update_numbers.h says.
 */
#ifndef TS_CUDA_FLAT_KERNELS_CUH
#define TS_CUDA_FLAT_KERNELS_CUH

#include <math.h>
#include <stdint.h>

#include "cuda/dense/codes.cuh"

extern "C" {
#include "dense/update_numbers.h"
#include "runtime/kernels.h"
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

/* The number of the thread, and of all of them. */
struct ts_flat_stride {
  int64_t first, step;
  __device__ ts_flat_stride()
      : first((int64_t)blockIdx.x * TS_FLAT_THREADS + threadIdx.x),
        step((int64_t)gridDim.x * TS_FLAT_THREADS) {
  }
};

/* ---- rows ---------------------------------------------------------------- */

/* Where element AT of rows of N lies; few words are divided faster. */
static __device__ __forceinline__ int64_t ts_flat_place(int64_t at, int64_t n,
                                                        int64_t stride) {
  if (n == stride) return at;
  if ((at | n) >> 32) return at / n * stride + at % n;
  const uint32_t row = (uint32_t)at / (uint32_t)n;
  return row * stride + ((uint32_t)at - row * (uint32_t)n);
}

/* Strides and N in vectors. */
template <class Vector>
static __global__ void __launch_bounds__(TS_FLAT_THREADS)
    ts_half_rows_kernel(typename Vector::coded *to,
                        const typename Vector::plain *from, int64_t to_stride,
                        int64_t from_stride, int64_t n, int64_t all) {
  const ts_flat_stride s;
  for (int64_t i = s.first; i < all; i += s.step)
    to[ts_flat_place(i, n, to_stride)] =
        Vector::narrow(from[ts_flat_place(i, n, from_stride)]);
}

static __device__ __forceinline__ bool ts_flat_is_bad(float x) {
  return (__float_as_uint(x) & 0x7f800000u) == 0x7f800000u;
}
static __device__ __forceinline__ bool ts_flat_is_bad(float4 x) {
  return ts_flat_is_bad(x.x) | ts_flat_is_bad(x.y) | ts_flat_is_bad(x.z) |
         ts_flat_is_bad(x.w);
}

/* All who find something write the same. */
template <class Vector>
static __global__ void __launch_bounds__(TS_FLAT_THREADS)
    ts_look_kernel(const Vector *x, int64_t stride, int64_t n, int64_t all,
                   int32_t *bad) {
  const ts_flat_stride s;
  bool found = false;
  for (int64_t i = s.first; i < all; i += s.step)
    found |= ts_flat_is_bad(x[ts_flat_place(i, n, stride)]);
  if (found) *bad = 1;
}

/* ---- pieces -------------------------------------------------------------- */

struct ts_copies_params {
  uint32_t first[TS_COPY_PIECES + 1]; /* block of each piece */
  int32_t n_pieces;
  ts_flat_copy piece[TS_COPY_PIECES];
};
static_assert(sizeof(ts_copies_params) <= 4096, "kernel parameters");

/* The last of N pieces that begins at BLOCK or before. */
static __device__ __forceinline__ int
ts_flat_piece(const uint32_t *first, int n, uint32_t block) {
  int low = 0;
  while (n > 1) {
    const int half = n / 2;
    if (first[low + half] <= block) low += half;
    n -= half;
  }
  return low;
}

static __global__ void __launch_bounds__(TS_FLAT_THREADS)
    ts_copies_kernel(const __grid_constant__ ts_copies_params p) {
  const int k = ts_flat_piece(p.first, p.n_pieces, blockIdx.x);
  float *to = p.piece[k].to;
  const float *from = p.piece[k].from;
  const int64_t begin = (int64_t)(blockIdx.x - p.first[k]) * TS_FLAT_CHUNK;
  const int64_t left = p.piece[k].n - begin;
  const int n = left < TS_FLAT_CHUNK ? (int)left : TS_FLAT_CHUNK;
  int i = 0;
  to += begin;
  from += begin;
  if (ts_flat_fits(to) && ts_flat_fits(from)) {
    for (i = (int)threadIdx.x; i < n / 4; i += TS_FLAT_THREADS)
      ((float4 *)to)[i] = ((const float4 *)from)[i];
    i = n / 4 * 4;
  }
  for (i += (int)threadIdx.x; i < n; i += TS_FLAT_THREADS) to[i] = from[i];
}

/* ---- two arrays ---------------------------------------------------------- */

template <class Vector>
static __global__ void __launch_bounds__(TS_FLAT_THREADS)
    ts_swap_kernel(Vector *a, Vector *b, int64_t n) {
  const ts_flat_stride s;
  for (int64_t i = s.first; i < n; i += s.step) {
    const Vector x = a[i];
    a[i] = b[i];
    b[i] = x;
  }
}

template <class Code>
static __global__ void __launch_bounds__(TS_FLAT_THREADS)
    ts_shorten_kernel(uint16_t *to, const float *from, int64_t n) {
  const ts_flat_stride s;
  for (int64_t i = s.first; i < n; i += s.step)
    to[i] = (uint16_t)Code::narrow(from[i]);
}

template <class Code>
static __global__ void __launch_bounds__(TS_FLAT_THREADS)
    ts_widen_kernel(float *to, const uint16_t *from, int64_t n) {
  const ts_flat_stride s;
  for (int64_t i = s.first; i < n; i += s.step) to[i] = Code::wide(from[i]);
}

/* ---- sums of squares ----------------------------------------------------- */

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

static __global__ void __launch_bounds__(TS_SUM_THREADS)
    ts_squares_kernel(const float *x, int64_t n, double *sums) {
  const ts_sum_place at(n);
  double part = 0;
#pragma unroll 8
  for (int64_t i = at.from + at.part; i < at.to; i += TS_SUM_PARTS) {
    const double v = x[i];
    part += v * v;
  }
  const double sum = ts_sum_parts(part);
  if (at.from < n && !at.part) sums[at.block] = sum;
}

/* to[j] += all sums[b][j], b < N, in order; K of them.  One block. */
template <int K>
static __global__ void __launch_bounds__(TS_FLAT_THREADS)
    ts_sums_kernel(double *to, const double *sums, int64_t n) {
  __shared__ double tile[K * TS_FLAT_THREADS];
  const int t = (int)threadIdx.x;
  double sum = 0;
  for (int64_t b = 0; b < n; b += TS_FLAT_THREADS) {
    const int m = n - b < TS_FLAT_THREADS ? (int)(n - b) : TS_FLAT_THREADS;
    for (int i = t; i < K * m; i += TS_FLAT_THREADS) tile[i] = sums[K * b + i];
    __syncthreads();
    for (int i = 0; t < K && i < m; i++) sum += tile[K * i + t];
    __syncthreads();
  }
  if (t < K) to[t] += sum;
}

static __global__ void ts_clip_kernel(double *norm, double *factor,
                                      double most) {
  *norm = sqrt(*norm);
  *factor = fmin(1.0, most / (*norm + 1e-6));
}

#endif
