/* full_softmax.cu - the softmax over all items, but for its products: a warp
 * has a target, a row of scores, or a row that gets a gradient. */
#include "cuda/model/elements.cuh"
#include "cuda/model/lanes.cuh"

extern "C" {
#include "kernel_table.h"
}

enum { THREADS = TS_WARPS_THREADS };

/* ---- rows for the products ----------------------------------------------- */

static __device__ __forceinline__ void ts_all_copy(float *to, const float *x,
                                                   int32_t n) {
  ts_lanes_each(n, [&](int32_t c) { to[c] = __ldg(x + c); });
}

/* Target J of the sample whose first is T, which is id P. */
static __device__ void ts_all_wanted(const ts_full_softmax_args &a, int64_t t,
                                     int64_t p) {
  const int32_t u = a.index[p];
  const float *q = a.q + a.row[t] * a.q_stride;
  const float *x = a.items + u * a.item_stride;
  double sum = 0;
  for (int32_t c = (int32_t)threadIdx.x % 32; c < a.dim; c += 32)
    sum += (double)q[c] * (double)__ldg(x + c);
  for (int by = 16; by > 0; by /= 2)
    sum += __shfl_xor_sync(0xffffffff, sum, by);
  ts_all_copy(a.targets + t * a.dim, q, a.dim);
  if (a.target_ids) ts_all_copy(a.columns + t * a.dim, x, a.dim);
  if (threadIdx.x % 32) return;
  a.what[p] = (int32_t)t;
  a.wanted_row[t] = u;
  a.wanted[t] = a.scale * (float)sum;
  if (!a.target_ids) return;
  a.target_ids[t] = a.ids[p];
  a.column_shift[t] = a.shift ? a.shift[a.ids[p]] : 0;
  a.wanted[t] -= a.column_shift[t];
}

/* A block has a sample's bag: slices are long where samples are few. */
static __global__ void __launch_bounds__(THREADS)
    ts_all_take_kernel(const __grid_constant__ ts_full_softmax_args a) {
  const int64_t warp = threadIdx.x / 32;
  for (int64_t b = blockIdx.x; b < a.n_samples; b += gridDim.x) {
    const int64_t t0 = a.offsets[b], m = a.offsets[b + 1] - t0;
    const int64_t k0 = ts_slices_before(a.slices, b), p0 = t0 + k0;
    const int64_t n = ts_slices_length(a.slices, b);
    for (int64_t j = warp; j < m; j += TS_WARPS)
      ts_all_wanted(a, t0 + j, p0 + j);
    for (int64_t k = warp; k < n; k += TS_WARPS) {
      const int64_t p = p0 + m + k;
      ts_all_copy(a.columns + (k0 + k) * a.dim,
                  a.items + a.index[p] * a.item_stride, a.dim);
      if (threadIdx.x % 32 == 0) a.what[p] = (int32_t)(-1 - (k0 + k));
    }
  }
}

ts_err ts_cuda_full_softmax_take(const ts_full_softmax_args *a) {
  if (a->n_samples == 0) return TS_OK;
  return TS_CUDA_LAUNCH(ts_all_take_kernel,
                        {ts_grid(a->n_samples, 1, 65536), THREADS}, *a);
}

/* ---- blocks -------------------------------------------------------------- */

/* Score K of row I as it counts, where columns are wanted items. */
static __device__ __forceinline__ float
ts_all_score(const ts_full_softmax_args &a, int64_t i, int64_t k) {
  const float s = a.s[i * a.n_columns + k];
  if (!a.target_ids) return s;
  return a.target_ids[k] == a.row_ids[i] && k != i + a.own
             ? TS_NO_SCORE
             : s - a.column_shift[k];
}

static __global__ void __launch_bounds__(THREADS)
    ts_all_part_kernel(const __grid_constant__ ts_full_softmax_args a) {
  ts_warps_each(a.n_block, [&](int64_t i) {
    float most = -INFINITY, sum = 0;
    for (int64_t k = threadIdx.x % 32; k < a.n_columns; k += 32)
      most = fmaxf(most, ts_all_score(a, i, k));
    most = ts_warp_max(most);
    for (int64_t k = threadIdx.x % 32; k < a.n_columns; k += 32)
      sum += expf(ts_all_score(a, i, k) - most);
    sum = ts_warp_sum(sum);
    if (threadIdx.x % 32) return;
    a.part[2 * i] = most;
    a.part[2 * i + 1] = sum;
  });
}

static __global__ void __launch_bounds__(THREADS)
    ts_all_slopes_kernel(const __grid_constant__ ts_full_softmax_args a) {
  ts_warps_each(a.n_block, [&](int64_t i) {
    float *s = a.s + i * a.n_columns;
    const float f = a.factor[2 * i], log_sum = a.factor[2 * i + 1];
    for (int64_t k = threadIdx.x % 32; k < a.n_columns; k += 32)
      s[k] = f * expf(ts_all_score(a, i, k) - log_sum);
  });
}

ts_err ts_cuda_full_softmax_part(const ts_full_softmax_args *a) {
  if (a->n_block == 0) return TS_OK;
  return TS_CUDA_LAUNCH(ts_all_part_kernel, ts_warps_shape(a->n_block), *a);
}

ts_err ts_cuda_full_softmax_slopes(const ts_full_softmax_args *a) {
  if (a->n_block == 0) return TS_OK;
  return TS_CUDA_LAUNCH(ts_all_slopes_kernel, ts_warps_shape(a->n_block), *a);
}

/* ---- losses -------------------------------------------------------------- */

static __global__ void __launch_bounds__(TS_ELEMENTS_THREADS)
    ts_all_loss_kernel(const __grid_constant__ ts_full_softmax_args a) {
  ts_elements(a.n_targets, 1, [&](int64_t t, int32_t) {
    double most = -INFINITY, sum = 0;
    for (int32_t r = 0; r < a.n_parts; r++)
      most = fmax(most, (double)a.parts[(r * a.n_targets + t) * 2]);
    for (int32_t r = 0; r < a.n_parts; r++) {
      const float *p = a.parts + (r * a.n_targets + t) * 2;
      if (p[1] != 0) sum += (double)p[1] * exp((double)p[0] - most);
    }
    const double log_sum = most + log(sum);
    a.factor[2 * t] = 0;
    a.factor[2 * t + 1] = (float)log_sum;
    a.loss[t] = (float)(log_sum - (double)a.wanted[t]);
  });
}

static __global__ void __launch_bounds__(TS_ELEMENTS_THREADS)
    ts_all_factor_kernel(const __grid_constant__ ts_full_softmax_args a) {
  ts_elements(a.n_targets, 1, [&](int64_t t, int32_t) {
    const int32_t b = a.sample[t];
    a.factor[2 * t] = a.scale * a.by[b * a.by_stride] /
                      (float)(a.offsets[b + 1] - a.offsets[b]);
  });
}

ts_err ts_cuda_full_softmax_loss(const ts_full_softmax_args *a) {
  if (a->n_targets == 0) return TS_OK;
  return TS_CUDA_LAUNCH(ts_all_loss_kernel, ts_elements_shape(a->n_targets),
                        *a);
}

ts_err ts_cuda_full_softmax_factor(const ts_full_softmax_args *a) {
  if (a->n_targets == 0) return TS_OK;
  return TS_CUDA_LAUNCH(ts_all_factor_kernel, ts_elements_shape(a->n_targets),
                        *a);
}

/* ---- gradients ----------------------------------------------------------- */

static __global__ void __launch_bounds__(THREADS)
    ts_all_rows_kernel(const __grid_constant__ ts_full_softmax_args a) {
  ts_warps_each(a.n_rows, [&](int64_t r) {
    ts_lanes_each(a.dim, [&](int32_t c) {
      float sum = 0;
      for (int64_t t = a.first[r]; t < a.first[r + 1]; t++) {
        sum += a.dtargets[t * a.dim + c];
        sum = fmaf(-a.factor[2 * t],
                   a.items[a.wanted_row[t] * a.item_stride + c], sum);
      }
      a.dq[r * a.q_stride + c] = sum;
    });
  });
}

static __global__ void __launch_bounds__(THREADS)
    ts_all_items_kernel(const __grid_constant__ ts_full_softmax_args a) {
  ts_warps_each(a.n_items, [&](int64_t u) {
    ts_lanes_each(a.dim, [&](int32_t c) {
      float sum = 0;
      for (int64_t i = a.member_start[u]; i < a.member_start[u + 1]; i++) {
        const int64_t t = a.what[a.member[i]];
        if (t >= 0) sum = fmaf(-a.factor[2 * t], a.targets[t * a.dim + c], sum);
        if (t < 0 || a.target_ids)
          sum += a.dcolumns[(t < 0 ? -1 - t : t) * a.dim + c];
      }
      a.ditems[u * a.item_stride + c] = sum;
    });
  });
}

ts_err ts_cuda_full_softmax_give(const ts_full_softmax_args *a) {
  if (a->dq && a->n_rows)
    TS_DO(TS_CUDA_LAUNCH(ts_all_rows_kernel, ts_warps_shape(a->n_rows), *a));
  if (a->n_items == 0) return TS_OK;
  return TS_CUDA_LAUNCH(ts_all_items_kernel, ts_warps_shape(a->n_items), *a);
}
