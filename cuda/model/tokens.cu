/* tokens.cu - where the tokens of samples lie, their pools and places. */
#include "cuda/model/elements.cuh"
#include "cuda/model/starts.cuh"
#include "cuda/sparse/exact.cuh"

/* ---- where they are ------------------------------------------------------ */

enum { THREADS = 256 };

static __global__ void __launch_bounds__(TS_STARTS_THREADS)
    ts_token_starts(const __grid_constant__ ts_tokens_args a) {
  ts_starts(a.offsets, a.n_samples,
            [&](int64_t s) {
              return a.more + ts_bag_length(a.lengths, a.bags, s);
            });
}

/* A warp for a sample. */
static __global__ void __launch_bounds__(THREADS)
    ts_token_places(const __grid_constant__ ts_tokens_args a) {
  const int64_t warps = (int64_t)gridDim.x * (THREADS / 32);
  for (int64_t s = ((int64_t)blockIdx.x * THREADS + threadIdx.x) / 32;
       s < a.n_samples; s += warps) {
    const int64_t from = a.offsets[s], end = a.offsets[s + 1];
    for (int64_t t = from + threadIdx.x % 32; t < end; t += 32) {
      a.sample[t] = (int32_t)s;
      a.position[t] = (int32_t)(t - from);
    }
  }
}

ts_err ts_cuda_tokens(const ts_tokens_args *a) {
  TS_DO(TS_CUDA_LAUNCH(ts_token_starts, {1, TS_STARTS_THREADS}, *a));
  if (a->n_tokens == 0) return TS_OK;
  return TS_CUDA_LAUNCH(ts_token_places,
                        {ts_grid(a->n_samples, THREADS / 32, 4096), THREADS},
                        *a);
}

static __global__ void __launch_bounds__(THREADS)
    ts_token_times_kernel(const __grid_constant__ ts_token_times_args a) {
  for (int64_t t = (int64_t)blockIdx.x * THREADS + threadIdx.x; t < a.n_tokens;
       t += (int64_t)gridDim.x * THREADS) {
    const int64_t s = a.sample[t], end = a.bags ? a.bags[s + 1] : 0;
    const int64_t k = a.bags ? a.bags[s] + t - a.offsets[s] : 0;
    a.when[t] = k < end ? (double)a.ids[k] : 0;
    a.asked[t] = k + 1 < end ? (double)a.ids[k + 1] : a.when[t];
  }
}

ts_err ts_cuda_token_times(const ts_token_times_args *a) {
  if (a->n_tokens == 0) return TS_OK;
  return TS_CUDA_LAUNCH(ts_token_times_kernel,
                        {ts_grid(a->n_tokens, THREADS, 4096), THREADS}, *a);
}

/* ---- vectors before them ------------------------------------------------- */

template <bool back>
static __global__ void __launch_bounds__(TS_ELEMENTS_THREADS)
    ts_prepend_kernel(const __grid_constant__ ts_prepend_args a) {
  ts_elements(a.n_tokens, a.n, [&](int64_t t, int32_t c) {
    const int64_t s = a.sample[t], k = a.position[t];
    const bool of_x = k >= a.n_before;
    const int64_t at = of_x ? (t - (s + 1) * a.n_before) * a.x_stride + c
                            : s * a.before_stride + k * a.n + c;
    if (!back) {
      a.y[t * a.y_stride + c] = of_x ? a.x[at] : a.before[at];
      return;
    }
    float *to = of_x ? a.dx : a.dbefore;
    if (to) to[at] = a.dy[t * a.y_stride + c];
  });
}

ts_err ts_cuda_prepend_forward(const ts_prepend_args *a) {
  const int64_t n = a->n_tokens * a->n;
  if (n == 0) return TS_OK;
  return TS_CUDA_LAUNCH(ts_prepend_kernel<false>, ts_elements_shape(n), *a);
}

ts_err ts_cuda_prepend_backward(const ts_prepend_args *a) {
  const int64_t n = a->n_tokens * a->n;
  if (n == 0) return TS_OK;
  return TS_CUDA_LAUNCH(ts_prepend_kernel<true>, ts_elements_shape(n), *a);
}

/* ---- pool ---------------------------------------------------------------- */

static __device__ inline int64_t
ts_first_largest(const ts_pool_args &a, int64_t from, int64_t end, int32_t c) {
  int64_t best = from;
  for (int64_t t = from + 1; t < end; t++)
    if (a.x[t * a.x_stride + c] > a.x[best * a.x_stride + c]) best = t;
  return best;
}

static __global__ void __launch_bounds__(TS_ELEMENTS_THREADS)
    ts_pool_kernel(const __grid_constant__ ts_pool_args a) {
  ts_elements(a.n_samples, a.n, [&](int64_t s, int32_t c) {
    const int64_t from = a.offsets[s], end = a.offsets[s + 1];
    ts_real y = {0};
    if (a.kind == TS_POOL_TOKENS_MAX && from < end)
      y.x = a.x[ts_first_largest(a, from, end, c) * a.x_stride + c];
    else if (a.kind == TS_POOL_TOKENS_LAST && from < end)
      y.x = a.x[(end - 1) * a.x_stride + c];
    else
      for (int64_t t = from; t < end; t++)
        y = y + ts_real{a.x[t * a.x_stride + c]};
    if (a.kind == TS_POOL_TOKENS_MEAN && from < end)
      y = y * (ts_real{1} / ts_real{(float)(end - from)});
    a.y[s * a.y_stride + c] = y.x;
  });
}

static __global__ void __launch_bounds__(TS_ELEMENTS_THREADS)
    ts_pool_grad_kernel(const __grid_constant__ ts_pool_args a) {
  ts_elements(a.n_samples, a.n, [&](int64_t s, int32_t c) {
    const int64_t from = a.offsets[s], end = a.offsets[s + 1];
    const int64_t only = a.kind == TS_POOL_TOKENS_LAST ? end - 1
                         : a.kind == TS_POOL_TOKENS_MAX
                             ? ts_first_largest(a, from, end, c)
                             : -1;
    ts_real dy = {a.dy[s * a.y_stride + c]};
    if (a.kind == TS_POOL_TOKENS_MEAN)
      dy = ts_real{1} / ts_real{(float)(end - from)} * dy;
    for (int64_t t = from; t < end; t++)
      a.dx[t * a.x_stride + c] = only < 0 || t == only ? dy.x : 0.0f;
  });
}

ts_err ts_cuda_pool_forward(const ts_pool_args *a) {
  const int64_t n = a->n_samples * a->n;
  if (n == 0) return TS_OK;
  return TS_CUDA_LAUNCH(ts_pool_kernel, ts_elements_shape(n), *a);
}

ts_err ts_cuda_pool_backward(const ts_pool_args *a) {
  const int64_t n = a->n_samples * a->n;
  if (n == 0) return TS_OK;
  return TS_CUDA_LAUNCH(ts_pool_grad_kernel, ts_elements_shape(n), *a);
}

/* ---- position ------------------------------------------------------------ */

static __global__ void __launch_bounds__(TS_ELEMENTS_THREADS)
    ts_position_kernel(const __grid_constant__ ts_places_args a) {
  ts_elements(a.n_tokens, a.n, [&](int64_t t, int32_t c) {
    int64_t place = a.position[t];
    if (a.from_newest) place = a.offsets[a.sample[t] + 1] - 1 - t;
    if (place >= a.n_places) place = a.n_places - 1;
    const ts_real y = ts_real{a.scale} * ts_real{a.x[t * a.x_stride + c]} +
                      ts_real{a.table[place * a.n + c]};
    a.y[t * a.y_stride + c] = y.x;
  });
}

static __global__ void __launch_bounds__(TS_ELEMENTS_THREADS)
    ts_position_rows_kernel(const __grid_constant__ ts_places_args a) {
  ts_elements(a.n_tokens, a.n, [&](int64_t t, int32_t c) {
    a.dx[t * a.x_stride + c] =
        (ts_real{a.scale} * ts_real{a.dy[t * a.y_stride + c]}).x;
  });
}

/* A thread has an element of the table and goes through the samples. */
static __global__ void __launch_bounds__(TS_ELEMENTS_THREADS)
    ts_position_table_kernel(const __grid_constant__ ts_places_args a) {
  ts_elements(a.n_places, a.n, [&](int64_t p, int32_t c) {
    ts_real sum = {0};
    for (int64_t s = 0; s < a.n_samples; s++) {
      const int64_t from = a.offsets[s], end = a.offsets[s + 1];
      const int64_t last = p == a.n_places - 1 ? end - from : p + 1;
      for (int64_t k = p; k < last && k < end - from; k++) {
        const int64_t t = a.from_newest ? end - 1 - k : from + k;
        sum = sum + ts_real{a.dy[t * a.y_stride + c]};
      }
    }
    a.dtable[p * a.n + c] = sum.x;
  });
}

ts_err ts_cuda_places_forward(const ts_places_args *a) {
  const int64_t n = a->n_tokens * a->n;
  if (n == 0) return TS_OK;
  return TS_CUDA_LAUNCH(ts_position_kernel, ts_elements_shape(n), *a);
}

ts_err ts_cuda_places_backward(const ts_places_args *a) {
  const int64_t n = a->n_tokens * a->n, m = (int64_t)a->n_places * a->n;
  if (n > 0 && a->dx)
    TS_DO(TS_CUDA_LAUNCH(ts_position_rows_kernel, ts_elements_shape(n), *a));
  return TS_CUDA_LAUNCH(ts_position_table_kernel, ts_elements_shape(m), *a);
}

/* ---- rotary -------------------------------------------------------------- */

/* A thread turns a pair. */
static __global__ void __launch_bounds__(TS_ELEMENTS_THREADS)
    ts_rotary_kernel(const __grid_constant__ ts_rotary_args a) {
  const int32_t pairs = a.dim / 2;
  ts_elements(a.n_tokens, a.n_heads * pairs, [&](int64_t t, int32_t k) {
    float2 *at = (float2 *)(a.x + t * a.x_stride) + k;
    const float2 x = *at;
    const float2 wave = __ldg(
        (const float2 *)(a.waves + (int64_t)a.position[t] * a.dim) + k % pairs);
    const ts_real s = {a.back ? -wave.x : wave.x}, c = {wave.y};
    *at = make_float2((ts_real{x.x} * c - ts_real{x.y} * s).x,
                      (ts_real{x.x} * s + ts_real{x.y} * c).x);
  });
}

ts_err ts_cuda_rotary(const ts_rotary_args *a) {
  const int64_t n = a->n_tokens * a->n_heads * (a->dim / 2);
  if (n == 0) return TS_OK;
  return TS_CUDA_LAUNCH(ts_rotary_kernel, ts_elements_shape(n), *a);
}
