/* cross_kernels.cuh - what cross layers and factorisation machines do by
 * element, and rows that are added to others, with the bits of the host's
 * plain C (src/dense/cross_body.h; NaN is NaN, whichever): no operation is
 * fused, and sums have its order.
 *
 * By element a thread has four columns of a row, as vectors where rows lie on
 * their borders. */
#ifndef TS_CUDA_CROSS_KERNELS_CUH
#define TS_CUDA_CROSS_KERNELS_CUH

#include "cuda/dense/half.cuh"
#include "runtime/kernels.h"

enum { TS_CROSS_THREADS = 256 };

/* ---- four columns -------------------------------------------------------- */

/* N <= 4 of the columns at P; WIDE: four, one vector. */
template <bool WIDE>
static __device__ __forceinline__ float4 ts_cross_get(const float *p, int n) {
  if (WIDE)
    return *(const float4 *)p;
  else
    return make_float4(p[0], n > 1 ? p[1] : 0, n > 2 ? p[2] : 0,
                       n > 3 ? p[3] : 0);
}
template <bool WIDE>
static __device__ __forceinline__ void ts_cross_put(float *p, int n, float4 x) {
  if (WIDE) {
    *(float4 *)p = x;
  } else {
    p[0] = x.x;
    if (n > 1) p[1] = x.y;
    if (n > 2) p[2] = x.z;
    if (n > 3) p[3] = x.w;
  }
}
template <bool WIDE>
static __device__ __forceinline__ float4 ts_cross_get(const uint16_t *p,
                                                      int n) {
  if (WIDE) {
    const uint2 x = *(const uint2 *)p;
    return make_float4(ts_half_low(x.x), ts_half_high(x.x), ts_half_low(x.y),
                       ts_half_high(x.y));
  } else {
    return make_float4(ts_wide_bf16(p[0]), n > 1 ? ts_wide_bf16(p[1]) : 0,
                       n > 2 ? ts_wide_bf16(p[2]) : 0,
                       n > 3 ? ts_wide_bf16(p[3]) : 0);
  }
}
template <bool WIDE>
static __device__ __forceinline__ void ts_cross_put(uint16_t *p, int n,
                                                    float4 x) {
  if (WIDE) {
    *(uint2 *)p = make_uint2(ts_half_pair(x.x, x.y), ts_half_pair(x.z, x.w));
  } else {
    p[0] = ts_half_near(x.x);
    if (n > 1) p[1] = ts_half_near(x.y);
    if (n > 2) p[2] = ts_half_near(x.z);
    if (n > 3) p[3] = ts_half_near(x.w);
  }
}

static __device__ __forceinline__ float4 ts_cross_sum(float4 a, float4 b) {
  return make_float4(__fadd_rn(a.x, b.x), __fadd_rn(a.y, b.y),
                     __fadd_rn(a.z, b.z), __fadd_rn(a.w, b.w));
}
static __device__ __forceinline__ float4 ts_cross_product(float4 a, float4 b) {
  return make_float4(__fmul_rn(a.x, b.x), __fmul_rn(a.y, b.y),
                     __fmul_rn(a.z, b.z), __fmul_rn(a.w, b.w));
}

/* Calls body(row, column, n) for all fours of columns of the rows; up to a warp
 * has a row. */
template <class Body>
static __device__ __forceinline__ void ts_cross_each(int64_t rows,
                                                     int32_t width, Body body) {
  const int shift = ts_lanes_shift((width + 3) / 4);
  const int64_t groups = TS_CROSS_THREADS >> shift;
  const int32_t lane = (int32_t)threadIdx.x & ((1 << shift) - 1);
  for (int64_t i = blockIdx.x * groups + (threadIdx.x >> shift); i < rows;
       i += gridDim.x * groups)
#pragma unroll 2
    for (int32_t c = 4 * lane; c < width; c += 4 << shift)
      body(i, c, (int)min(4, width - c));
}

/* ---- cross layers -------------------------------------------------------- */

/* T: of t, dt and add. */
template <class T, bool WIDE>
__global__ void __launch_bounds__(TS_CROSS_THREADS)
    ts_cross_kernel(const __grid_constant__ ts_cross_args a) {
  ts_cross_each(a.batch, a.width, [&](int64_t i, int32_t c, int n) {
    const int64_t at = i * a.stride + c;
    const float4 x0 = ts_cross_get<WIDE>(a.x0 + at, n);
    const float4 x = ts_cross_get<WIDE>(a.x + at, n);
    const float4 t = ts_cross_get<WIDE>((const T *)a.t + i * a.t_stride + c, n);
    const float4 y = ts_cross_sum(ts_cross_product(x0, t), x);
    if (a.y) ts_cross_put<WIDE>(a.y + at, n, y);
    if (a.y16) ts_cross_put<WIDE>(a.y16 + at, n, y);
  });
}

template <class T, bool WIDE>
__global__ void __launch_bounds__(TS_CROSS_THREADS)
    ts_cross_grad_kernel(const __grid_constant__ ts_cross_args a) {
  ts_cross_each(a.batch, a.width, [&](int64_t i, int32_t c, int n) {
    const int64_t at = i * a.stride + c, t_at = i * a.t_stride + c;
    float4 dy = a.dy16 ? ts_cross_get<WIDE>(a.dy16 + at, n)
                       : ts_cross_get<WIDE>(a.dy + at, n);
    float4 by = dy; /* dy * t, or dy where there is no t */
    if (a.add) {
      dy = ts_cross_sum(dy, ts_cross_get<WIDE>((const T *)a.add + at, n));
      if (a.t) ts_cross_put<WIDE>(a.dy + at, n, dy);
      by = dy;
    }
    if (a.t) {
      by = ts_cross_product(dy, ts_cross_get<WIDE>((const T *)a.t + t_at, n));
      ts_cross_put<WIDE>(
          (T *)a.dt + t_at, n,
          ts_cross_product(dy, ts_cross_get<WIDE>(a.x0 + at, n)));
    }
    /* Of f32 with t the host sets where others add to 0. */
    const bool sets = a.first && a.t && sizeof(T) == 4;
    const float4 zero = make_float4(0, 0, 0, 0);
    if (!sets)
      by = ts_cross_sum(a.first ? zero : ts_cross_get<WIDE>(a.dx0 + at, n), by);
    ts_cross_put<WIDE>(a.dx0 + at, n, by);
  });
}

/* ---- rows added to others ------------------------------------------------ */

/* Row i of TO += row i of FROM, N columns. */
struct ts_add_part {
  float *to;
  const float *from;
  int64_t to_stride, from_stride;
  int32_t rows, n;
};

template <bool WIDE>
__global__ void __launch_bounds__(TS_CROSS_THREADS)
    ts_add_part_kernel(const __grid_constant__ ts_add_part a) {
  ts_cross_each(a.rows, a.n, [&](int64_t i, int32_t c, int n) {
    float *to = a.to + i * a.to_stride + c;
    const float *from = a.from + i * a.from_stride + c;
    ts_cross_put<WIDE>(
        to, n,
        ts_cross_sum(ts_cross_get<WIDE>(to, n), ts_cross_get<WIDE>(from, n)));
  });
}

/* ---- factorisation machine ----------------------------------------------- */

/* A group of so many lanes has a row, a lane a coordinate of those at hand. */
enum { TS_FM_LANES = 16, TS_FM_AHEAD = 8 };

struct ts_fm_lanes {
  uint32_t mask;
  int lane;
};
static __device__ __forceinline__ ts_fm_lanes ts_fm_lanes_now() {
  const int in_warp = (int)threadIdx.x % 32;
  return {0xffffu << in_warp / TS_FM_LANES * TS_FM_LANES,
          in_warp % TS_FM_LANES};
}

/* S plus the values of all lanes, one after the other. */
static __device__ __forceinline__ float ts_fm_add_lanes(const ts_fm_lanes &l,
                                                        float s, float x) {
#pragma unroll
  for (int k = 0; k < TS_FM_LANES; k++)
    s = __fadd_rn(s, __shfl_sync(l.mask, x, k, TS_FM_LANES));
  return s;
}

/* Sums of a coordinate over vectors, STEP floats apart; 0 where THERE isn't. */
struct ts_fm_sums {
  float sum, square;
};
static __device__ __forceinline__ ts_fm_sums ts_fm_sums_of(const float *x,
                                                           int32_t n,
                                                           int32_t step,
                                                           bool there) {
  ts_fm_sums s = {0, 0};
  if (!there) return s;
  for (int32_t v = 0; v < n; v += TS_FM_AHEAD) {
    float y[TS_FM_AHEAD];
#pragma unroll
    for (int u = 0; u < TS_FM_AHEAD; u++)
      y[u] = __ldg(x + (int64_t)min(v + u, n - 1) * step);
#pragma unroll
    for (int u = 0; u < TS_FM_AHEAD; u++)
      if (v + u < n) {
        s.sum = __fadd_rn(s.sum, y[u]);
        s.square = __fadd_rn(s.square, __fmul_rn(y[u], y[u]));
      }
  }
  return s;
}

/* All scalars of the row: 16 partial sums, added up, and then the rest. */
static __device__ __forceinline__ ts_fm_sums ts_fm_flat(const ts_fm_lanes &l,
                                                        const float *x,
                                                        int32_t n) {
  const int32_t whole = n / TS_FM_LANES * TS_FM_LANES;
  const ts_fm_sums part =
      ts_fm_sums_of(x + l.lane, whole / TS_FM_LANES, TS_FM_LANES, true);
  const float y = whole + l.lane < n ? __ldg(x + whole + l.lane) : 0;
  ts_fm_sums s;
  s.square = ts_fm_add_lanes(l, 0, part.square);
  s.sum = ts_fm_add_lanes(l, 0, part.sum);
  for (int k = 0; k < n - whole; k++) {
    const float z = __shfl_sync(l.mask, y, k, TS_FM_LANES);
    s.sum = __fadd_rn(s.sum, z);
    s.square = __fadd_rn(s.square, __fmul_rn(z, z));
  }
  return s;
}

/* Calls body(row) for all rows, lanes of a group together. */
template <class Body>
static __device__ __forceinline__ void ts_fm_each(int32_t batch, Body body) {
  const int32_t groups = TS_CROSS_THREADS / TS_FM_LANES;
  for (int64_t i = (int64_t)blockIdx.x * groups + threadIdx.x / TS_FM_LANES;
       i < batch; i += (int64_t)gridDim.x * groups)
    body(i);
}

static __global__ void __launch_bounds__(TS_CROSS_THREADS)
    ts_fm_kernel(const __grid_constant__ ts_fm_args a) {
  const ts_fm_lanes l = ts_fm_lanes_now();
  ts_fm_each(a.batch, [&](int64_t i) {
    const float *x = a.x + i * a.stride;
    float fm = 0;
    if (a.dim == 1) {
      const ts_fm_sums s = ts_fm_flat(l, x, a.n_vectors);
      fm = __fsub_rn(__fmul_rn(s.sum, s.sum), s.square);
    }
    for (int32_t d = 0; a.dim > 1 && d < a.dim; d += TS_FM_LANES) {
      const ts_fm_sums s =
          ts_fm_sums_of(x + d + l.lane, a.n_vectors, a.dim, d + l.lane < a.dim);
      fm = __fsub_rn(fm, ts_fm_add_lanes(l, 0, s.square));
      fm = ts_fm_add_lanes(l, fm, __fmul_rn(s.sum, s.sum));
    }
    if (l.lane == 0) a.out[i * a.out_stride] = __fmul_rn(0.5f, fm);
  });
}

/* dx += g * (sum - x). */
static __device__ __forceinline__ void ts_fm_add(float *dx, const float *x,
                                                 float g, float sum) {
  *dx = __fadd_rn(*dx, __fmul_rn(g, __fsub_rn(sum, __ldg(x))));
}

static __global__ void __launch_bounds__(TS_CROSS_THREADS)
    ts_fm_grad_kernel(const __grid_constant__ ts_fm_args a) {
  const ts_fm_lanes l = ts_fm_lanes_now();
  ts_fm_each(a.batch, [&](int64_t i) {
    const float *x = a.x + i * a.stride;
    float *dx = a.dx + i * a.stride;
    const float g = __ldg(a.grad + i * a.out_stride);
    if (a.dim == 1) {
      const ts_fm_sums s = ts_fm_flat(l, x, a.n_vectors);
      for (int32_t k = l.lane; k < a.n_vectors; k += TS_FM_LANES)
        ts_fm_add(dx + k, x + k, g, s.sum);
      return;
    }
    for (int32_t d = l.lane; d < a.dim; d += TS_FM_LANES) {
      const ts_fm_sums s = ts_fm_sums_of(x + d, a.n_vectors, a.dim, true);
#pragma unroll 4
      for (int32_t v = 0; v < a.n_vectors; v++)
        ts_fm_add(dx + (int64_t)v * a.dim + d, x + (int64_t)v * a.dim + d, g,
                  s.sum);
    }
  });
}

#endif
