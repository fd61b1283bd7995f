/* fm.cu - factorisation machines, with the bits of the host's plain C
 * (src/dense/cross_body.h; NaN is NaN, whichever): no operation is fused, and
 * sums have its order. */
#include "cuda/runtime/cuda_impl.h"

/* A group of so many lanes has a row, a lane a coordinate of those at hand. */
enum { TS_FM_THREADS = 256, TS_FM_LANES = 16, TS_FM_AHEAD = 8 };

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
  const int32_t groups = TS_FM_THREADS / TS_FM_LANES;
  for (int64_t i = (int64_t)blockIdx.x * groups + threadIdx.x / TS_FM_LANES;
       i < batch; i += (int64_t)gridDim.x * groups)
    body(i);
}

static __global__ void __launch_bounds__(TS_FM_THREADS)
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

static __global__ void __launch_bounds__(TS_FM_THREADS)
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

static ts_cuda_shape shape_of(const ts_fm_args *a) {
  return ts_cuda_strided(a->batch, TS_FM_THREADS / TS_FM_LANES, TS_FM_THREADS);
}

ts_err ts_cuda_fm_forward(const ts_fm_args *a) {
  if (a->batch == 0) return TS_OK;
  return TS_CUDA_LAUNCH(ts_fm_kernel, shape_of(a), *a);
}

ts_err ts_cuda_fm_backward(const ts_fm_args *a) {
  if (a->batch == 0) return TS_OK;
  return TS_CUDA_LAUNCH(ts_fm_grad_kernel, shape_of(a), *a);
}
