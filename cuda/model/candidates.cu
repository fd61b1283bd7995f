/* candidates.cu - losses over candidates: a warp has a target, or a row that
 * gets a gradient; sums over columns are those of its lanes, then a tree's. */
#include "cuda/model/elements.cuh"
#include "cuda/model/lanes.cuh"
#include "cuda/model/starts.cuh"

extern "C" {
#include "model/candidates.h"
}

enum { THREADS = TS_WARPS_THREADS };

/* ---- where targets lie --------------------------------------------------- */

static __global__ void __launch_bounds__(TS_STARTS_THREADS)
    ts_target_starts(const __grid_constant__ ts_targets_args a) {
  ts_starts(a.offsets, a.n_samples, [&](int64_t s) {
    return (ts_bag_length(a.lengths, a.bags, s) -
            ts_slices_length(a.slices, s)) /
           a.n_each;
  });
  if (threadIdx.x == 0) a.first[a.n_rows] = (int32_t)a.n_targets;
}

static __global__ void __launch_bounds__(THREADS)
    ts_target_places(const __grid_constant__ ts_targets_args a) {
  ts_warps_each(a.n_samples, [&](int64_t s) {
    const int64_t t = a.offsets[s], m = a.offsets[s + 1] - t;
    const int64_t from = a.rows ? a.rows[s] : s;
    const int64_t n = a.rows ? a.rows[s + 1] - from : 1;
    for (int64_t r = threadIdx.x % 32; r < n; r += 32)
      a.first[from + r] =
          (int32_t)(t + (a.rows && r > n - m ? r - (n - m) : 0));
    for (int64_t j = threadIdx.x % 32; j < m; j += 32) {
      a.row[t + j] = (int32_t)(a.rows ? from + n - m + j : s);
      a.sample[t + j] = (int32_t)s;
    }
  });
}

/* Rows of [from, from + N) that are masks before R, which a warp has 32 of:
 * what SEEN is to R's lane; then SEEN is moved. */
static __device__ __forceinline__ int64_t ts_masks_before(bool is,
                                                          int64_t *seen) {
  const uint32_t all = __ballot_sync(0xffffffff, is);
  const int64_t before = *seen + __popc(all & ((1u << threadIdx.x % 32) - 1));
  *seen += __popc(all);
  return before;
}

static __global__ void __launch_bounds__(THREADS)
    ts_target_masked(const __grid_constant__ ts_targets_args a) {
  ts_warps_each(a.n_samples, [&](int64_t s) {
    const int64_t t = a.offsets[s], m = a.offsets[s + 1] - t;
    const int64_t from = a.rows[s], n = a.rows[s + 1] - from;
    const int64_t lane = threadIdx.x % 32;
    int64_t masks = 0, seen = 0;
    for (int64_t r = 0; r < n; r += 32)
      (void)ts_masks_before(r + lane < n && a.ids[from + r + lane] == a.mask,
                            &masks);
    for (int64_t r = 0; r < n; r += 32) {
      const int64_t at = from + r + lane;
      const bool in = r + lane < n, is = in && a.ids[at] == a.mask;
      const int64_t k = ts_masks_before(is, &seen);
      if (in) a.first[at] = (int32_t)(t + (k < masks && k < m ? k : m));
      if (is && k < m) a.row[t + k] = (int32_t)at;
      for (int64_t j = masks; is && k == masks - 1 && j < m; j++)
        a.row[t + j] = (int32_t)at;
    }
    for (int64_t j = lane; j < m; j += 32) {
      if (!masks) a.row[t + j] = (int32_t)from;
      a.sample[t + j] = (int32_t)s;
    }
  });
}

ts_err ts_cuda_targets(const ts_targets_args *a) {
  TS_DO(TS_CUDA_LAUNCH(ts_target_starts, {1, TS_STARTS_THREADS}, *a));
  if (a->n_samples == 0) return TS_OK;
  if (a->ids)
    return TS_CUDA_LAUNCH(ts_target_masked, ts_warps_shape(a->n_samples), *a);
  return TS_CUDA_LAUNCH(ts_target_places, ts_warps_shape(a->n_samples), *a);
}

/* ---- scores -------------------------------------------------------------- */

/* The same in all lanes. */
static __device__ __forceinline__ float
ts_candidate_score(const ts_candidates_args &a, const float *q, int64_t m) {
  const float *x = a.items + a.index[m] * a.item_stride;
  float sum = 0;
  ts_lanes_each(a.dim, [&](int32_t c) { sum = fmaf(q[c], __ldg(x + c), sum); });
  sum = a.scale * ts_warp_sum(sum);
  return a.shift ? sum - a.shift[a.ids[m]] : sum;
}

/* Scores of target T, kept where derivatives will be; loss and rank. */
static __device__ ts_candidate_sum
ts_candidate_look(const ts_candidates_args &a, int64_t t) {
  const int32_t *index = a.index + t * a.n_each;
  const float *q = a.q + a.row[t] * a.q_stride;
  const bool first = threadIdx.x % 32 == 0;
  const float wanted = ts_candidate_score(a, q, t * a.n_each);
  ts_candidate_sum sum = ts_candidate_begin(a.kind, wanted);
  float rank = 0;
  for (int32_t k = 1; k < a.n_each; k++) {
    const float s = ts_candidate_score(a, q, t * a.n_each + k);
    if (a.grad && first) a.grad[t * a.n_each + k] = s;
    if (index[k] == index[0]) continue;
    rank += ts_candidate_above(s, wanted);
    ts_candidate_add(&a, &sum, s);
  }
  if (first) {
    a.loss[t] = (float)ts_candidate_loss(&a, &sum);
    a.rank[t] = rank;
  }
  return sum;
}

static __global__ void __launch_bounds__(THREADS)
    ts_candidate_kernel(const __grid_constant__ ts_candidates_args a) {
  ts_warps_each(a.n_targets, [&](int64_t t) {
    const ts_candidate_sum sum = ts_candidate_look(a, t);
    const int32_t *index = a.index + t * a.n_each;
    if (!a.grad) return;
    float *grad = a.grad + t * a.n_each;
    float others = 0;
    __syncwarp();
    for (int32_t k = 1 + (int32_t)threadIdx.x % 32; k < a.n_each; k += 32) {
      const float g = index[k] != index[0]
                          ? (float)ts_candidate_slope(&a, &sum, grad[k])
                          : 0.0f;
      others += g;
      grad[k] = g * a.scale;
    }
    others = ts_warp_sum(others);
    if (threadIdx.x % 32 == 0)
      grad[0] = (float)ts_candidate_wanted(&a, &sum, others) * a.scale;
  });
}

ts_err ts_cuda_candidates_forward(const ts_candidates_args *a) {
  if (a->n_targets == 0) return TS_OK;
  return TS_CUDA_LAUNCH(ts_candidate_kernel, ts_warps_shape(a->n_targets), *a);
}

/* ---- gradients ----------------------------------------------------------- */

static __device__ __forceinline__ float
ts_candidate_factor(const ts_candidates_args &a, int64_t t) {
  const int32_t s = a.sample[t];
  return a.by[s * a.by_stride] / (float)(a.offsets[s + 1] - a.offsets[s]);
}

static __global__ void __launch_bounds__(THREADS)
    ts_candidate_rows_kernel(const __grid_constant__ ts_candidates_args a) {
  ts_warps_each(a.n_rows, [&](int64_t r) {
    ts_lanes_each(a.dim, [&](int32_t c) {
      float sum = 0;
      for (int64_t t = a.first[r]; t < a.first[r + 1]; t++) {
        const float by = ts_candidate_factor(a, t);
        for (int64_t m = t * a.n_each; m < (t + 1) * a.n_each; m++)
          sum = fmaf(by * a.grad[m],
                     __ldg(a.items + a.index[m] * a.item_stride + c), sum);
      }
      a.dq[r * a.q_stride + c] = sum;
    });
  });
}

static __global__ void __launch_bounds__(THREADS)
    ts_candidate_items_kernel(const __grid_constant__ ts_candidates_args a) {
  ts_warps_each(a.n_items, [&](int64_t u) {
    ts_lanes_each(a.dim, [&](int32_t c) {
      float sum = 0;
      for (int64_t i = a.member_start[u]; i < a.member_start[u + 1]; i++) {
        const int64_t m = a.member[i], t = m / a.n_each;
        sum = fmaf(ts_candidate_factor(a, t) * a.grad[m],
                   __ldg(a.q + a.row[t] * a.q_stride + c), sum);
      }
      a.ditems[u * a.item_stride + c] = sum;
    });
  });
}

ts_err ts_cuda_candidates_rows(const ts_candidates_args *a) {
  if (a->n_rows == 0) return TS_OK;
  return TS_CUDA_LAUNCH(ts_candidate_rows_kernel, ts_warps_shape(a->n_rows),
                        *a);
}

ts_err ts_cuda_candidates_items(const ts_candidates_args *a) {
  if (a->n_items == 0) return TS_OK;
  return TS_CUDA_LAUNCH(ts_candidate_items_kernel, ts_warps_shape(a->n_items),
                        *a);
}

/* ---- figures ------------------------------------------------------------- */

static __global__ void __launch_bounds__(TS_ELEMENTS_THREADS)
    ts_target_figures_kernel(const __grid_constant__ ts_target_figures_args a) {
  ts_elements(a.n_samples, 1, [&](int64_t s, int32_t) {
    const int64_t m = a.offsets[s + 1] - a.offsets[s];
    double sum[TS_TARGET_FIGURES] = {0};
    for (int64_t t = a.offsets[s]; t < a.offsets[s + 1]; t++) {
      const double r = a.rank ? a.rank[t] : INFINITY;
      sum[0] += a.loss[t];
      sum[2] += r < (double)a.k;
      sum[3] += r < (double)a.k ? 1 / log2(r + 2) : 0;
      sum[4] += 1 / (r + 1);
    }
    sum[0] = m ? sum[0] / (double)m : 0;
    sum[1] = (double)m;
    for (int i = 0; i < TS_TARGET_FIGURES; i++)
      a.y[s * a.y_stride + i] = (float)sum[i];
  });
}

ts_err ts_cuda_target_figures(const ts_target_figures_args *a) {
  if (a->n_samples == 0) return TS_OK;
  return TS_CUDA_LAUNCH(ts_target_figures_kernel,
                        ts_elements_shape(a->n_samples), *a);
}
