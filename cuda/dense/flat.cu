/* flat.cu - kernels over flat arrays: rows in bf16, what is not finite, copies,
 * conversions, sums of squares. */
#include <cuda_fp16.h>
#include <math.h>

#include "cuda/dense/codes.cuh"
#include "cuda/dense/flat.cuh"

static ts_cuda_shape shape_of(int64_t n) {
  return ts_cuda_strided(n, TS_FLAT_THREADS, TS_FLAT_THREADS);
}

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
  ts_each<TS_FLAT_THREADS>(all, [&](int64_t i) {
    to[ts_flat_place(i, n, to_stride)] =
        Vector::narrow(from[ts_flat_place(i, n, from_stride)]);
  });
}

static __device__ __forceinline__ bool ts_flat_is_bad(float x) {
  return (__float_as_uint(x) & 0x7f800000u) == 0x7f800000u;
}
static __device__ __forceinline__ bool ts_flat_is_bad(float4 x) {
  return ts_flat_is_bad(x.x) | ts_flat_is_bad(x.y) | ts_flat_is_bad(x.z) |
         ts_flat_is_bad(x.w);
}

/* All threads that find something write the same. */
template <class Vector>
static __global__ void __launch_bounds__(TS_FLAT_THREADS)
    ts_check_finite_kernel(const Vector *x, int64_t stride, int64_t n,
                           int64_t all, int32_t *bad) {
  bool found = false;
  ts_each<TS_FLAT_THREADS>(all, [&](int64_t i) {
    found |= ts_flat_is_bad(x[ts_flat_place(i, n, stride)]);
  });
  if (found) *bad = 1;
}

ts_err ts_cuda_half_rows(const ts_half_args *a) {
  typedef ts_code_vector<ts_code_bf16, 4> four;
  typedef ts_code_vector<ts_code_bf16, 1> one;
  const int64_t all = a->rows * a->n;
  const bool fits = ts_flat_fits(a->from) && (uintptr_t)a->to % 8 == 0 &&
                    (a->n | a->to_stride | a->from_stride) % 4 == 0;
  if (all <= 0) return TS_OK;
  if (fits)
    return TS_CUDA_LAUNCH(ts_half_rows_kernel<four>, shape_of(all / 4),
                          (four::coded *)a->to, (const four::plain *)a->from,
                          a->to_stride / 4, a->from_stride / 4, a->n / 4,
                          all / 4);
  return TS_CUDA_LAUNCH(ts_half_rows_kernel<one>, shape_of(all),
                        (one::coded *)a->to, (const one::plain *)a->from,
                        a->to_stride, a->from_stride, a->n, all);
}

ts_err ts_cuda_check_finite(const ts_check_finite_args *a) {
  const int64_t all = a->rows * a->n;
  if (all <= 0) return TS_OK;
  if (ts_flat_fits(a->x) && (a->n | a->stride) % 4 == 0)
    return TS_CUDA_LAUNCH(ts_check_finite_kernel<float4>, shape_of(all / 4),
                          (const float4 *)a->x, a->stride / 4, a->n / 4,
                          all / 4, a->bad);
  return TS_CUDA_LAUNCH(ts_check_finite_kernel<float>, shape_of(all), a->x,
                        a->stride, a->n, all, a->bad);
}

/* ---- pieces -------------------------------------------------------------- */

struct ts_copies_params {
  uint32_t first[TS_COPY_PIECES + 1]; /* block of each piece */
  int32_t n_pieces;
  ts_flat_copy piece[TS_COPY_PIECES];
};
static_assert(sizeof(ts_copies_params) <= 4096, "kernel parameters");

/* How an element, or four, are copied. */
struct ts_copy_same {
  static __device__ float one(float x) {
    return x;
  }
  static __device__ float4 four(float4 x) {
    return x;
  }
};
struct ts_copy_shorten {
  static __device__ unsigned short one(float x) {
    return ts_code_vector<ts_code_bf16, 1>::narrow(x);
  }
  static __device__ uint2 four(float4 x) {
    return ts_code_vector<ts_code_bf16, 4>::narrow(x);
  }
};
struct ts_copy_widen {
  static __device__ float one(unsigned short x) {
    return ts_code_vector<ts_code_bf16, 1>::wide(x);
  }
  static __device__ float4 four(uint2 x) {
    return ts_code_vector<ts_code_bf16, 4>::wide(x);
  }
};

/* N elements from BEGIN on, by a block; by fours where both ends allow it. */
template <class Copy, class To, class From, class To4, class From4>
static __device__ __forceinline__ void ts_copy_piece(const ts_flat_copy &piece,
                                                     int64_t begin, int n) {
  To *to = (To *)piece.to + begin;
  const From *from = (const From *)piece.from + begin;
  int i = 0;
  if ((uintptr_t)to % sizeof(To4) == 0 &&
      (uintptr_t)from % sizeof(From4) == 0) {
    for (i = (int)threadIdx.x; i < n / 4; i += TS_FLAT_THREADS)
      ((To4 *)to)[i] = Copy::four(((const From4 *)from)[i]);
    i = n / 4 * 4;
  }
  for (i += (int)threadIdx.x; i < n; i += TS_FLAT_THREADS)
    to[i] = Copy::one(from[i]);
}

static __global__ void __launch_bounds__(TS_FLAT_THREADS)
    ts_copies_kernel(const __grid_constant__ ts_copies_params p) {
  typedef unsigned short half;
  const int k = ts_flat_piece(p.first, p.n_pieces);
  const ts_flat_copy &piece = p.piece[k];
  const int64_t begin = (int64_t)(blockIdx.x - p.first[k]) * TS_FLAT_CHUNK;
  const int64_t left = piece.n - begin;
  const int n = left < TS_FLAT_CHUNK ? (int)left : TS_FLAT_CHUNK;
  if (piece.kind == TS_COPY_SHORTEN)
    ts_copy_piece<ts_copy_shorten, half, float, uint2, float4>(piece, begin, n);
  else if (piece.kind == TS_COPY_WIDEN)
    ts_copy_piece<ts_copy_widen, float, half, float4, uint2>(piece, begin, n);
  else
    ts_copy_piece<ts_copy_same, float, float, float4, float4>(piece, begin, n);
}

ts_err ts_cuda_copies(const ts_copies_args *a) {
  ts_copies_params p = {};
  int64_t blocks = 0;
  p.n_pieces = 0;
  for (int32_t k = 0; k < a->n_pieces; k++) {
    if (a->piece[k].n <= 0) continue;
    p.first[p.n_pieces] = (uint32_t)blocks;
    p.piece[p.n_pieces++] = a->piece[k];
    blocks += ts_ceil_div(a->piece[k].n, TS_FLAT_CHUNK);
  }
  if (!blocks) return TS_OK;
  if (blocks > TS_GRID_X_MAX)
    return ts_fail(TS_ERR_INTERNAL, "copies of %lld blocks", (long long)blocks);
  return TS_CUDA_LAUNCH(ts_copies_kernel, {(unsigned)blocks, TS_FLAT_THREADS},
                        p);
}

/* ---- two arrays ---------------------------------------------------------- */

template <class Vector>
static __global__ void __launch_bounds__(TS_FLAT_THREADS)
    ts_swap_kernel(Vector *a, Vector *b, int64_t n) {
  ts_each<TS_FLAT_THREADS>(n, [&](int64_t i) {
    const Vector x = a[i];
    a[i] = b[i];
    b[i] = x;
  });
}

template <class Code>
static __global__ void __launch_bounds__(TS_FLAT_THREADS)
    ts_shorten_kernel(uint16_t *to, const float *from, int64_t n) {
  ts_each<TS_FLAT_THREADS>(
      n, [&](int64_t i) { to[i] = (uint16_t)Code::narrow(from[i]); });
}

template <class Code>
static __global__ void __launch_bounds__(TS_FLAT_THREADS)
    ts_widen_kernel(float *to, const uint16_t *from, int64_t n) {
  ts_each<TS_FLAT_THREADS>(n, [&](int64_t i) { to[i] = Code::wide(from[i]); });
}

ts_err ts_cuda_swap(float *a, float *b, int64_t n) {
  const int64_t four = ts_flat_fits(a) && ts_flat_fits(b) ? n / 4 * 4 : 0;
  if (four)
    TS_DO(TS_CUDA_LAUNCH(ts_swap_kernel<float4>, shape_of(four / 4),
                         (float4 *)a, (float4 *)b, four / 4));
  if (n > four)
    TS_DO(TS_CUDA_LAUNCH(ts_swap_kernel<float>, shape_of(n - four), a + four,
                         b + four, n - four));
  return TS_OK;
}

/* Through scratch: in place a thread would overwrite what another has yet to
 * read. */
template <class Code> static ts_err convert(float *x, int64_t n, bool shorten) {
  ts_err err = TS_OK;
  uint16_t *half = NULL;
  const size_t bytes = (size_t)n * sizeof(uint16_t);
  if (n <= 0) return TS_OK;
  TS_TRY(ts_cuda_take(&half, bytes, TS_TAG_GRADS));
  if (shorten) {
    TS_TRY(TS_CUDA_LAUNCH(ts_shorten_kernel<Code>, shape_of(n), half, x, n));
    TS_TRY(ts_cuda_copy(x, half, bytes));
  } else {
    TS_TRY(ts_cuda_copy(half, x, bytes));
    TS_TRY(TS_CUDA_LAUNCH(ts_widen_kernel<Code>, shape_of(n), x, half, n));
  }
done:
  ts_cuda_give(half, bytes, TS_TAG_GRADS);
  return err;
}

ts_err ts_cuda_shorten(float *x, int64_t n, ts_dtype dtype) {
  return dtype == TS_BF16 ? convert<ts_code_bf16>(x, n, true)
                          : convert<ts_code_f16>(x, n, true);
}

ts_err ts_cuda_widen(float *x, int64_t n, ts_dtype dtype) {
  return dtype == TS_BF16 ? convert<ts_code_bf16>(x, n, false)
                          : convert<ts_code_f16>(x, n, false);
}

/* ---- sums of squares ----------------------------------------------------- */

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

ts_err ts_sums_add(double *to, const double *sums, int k, int64_t n) {
  return TS_CUDA_LAUNCH((k == 1 ? ts_sums_kernel<1> : ts_sums_kernel<2>),
                        {1, TS_FLAT_THREADS}, to, sums, n);
}

ts_err ts_cuda_squares(const float *x, int64_t n, double *sum) {
  return ts_sums_of(
      sum, 1, n, TS_TAG_GRADS, [&](const ts_cuda_shape &shape, double *sums) {
        return TS_CUDA_LAUNCH(ts_squares_kernel, shape, x, n, sums);
      });
}

ts_err ts_cuda_clip(double *norm, double *factor, double most) {
  return TS_CUDA_LAUNCH(ts_clip_kernel, {1, 1}, norm, factor, most);
}
