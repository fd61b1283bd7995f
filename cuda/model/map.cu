/* map.cu - products, sums and waves by element, with broadcasting; the largest
 * of fields. */
#include "cuda/model/elements.cuh"

static __device__ __forceinline__ int64_t ts_map_at(const ts_stride4 &s,
                                                    int64_t b, int32_t h,
                                                    int32_t i, int32_t j) {
  return b * s.b + h * s.h + i * s.r + j * s.c;
}

static __device__ __forceinline__ float ts_map_op_of(ts_map_op op, float a,
                                                     float x) {
  if (op == TS_MAP_SIN) return sinpif(2 * (a * x));
  if (op == TS_MAP_COS) return cospif(2 * (a * x));
  return op == TS_MAP_SUM ? a + x : a * x;
}

static __global__ void __launch_bounds__(TS_ELEMENTS_THREADS)
    ts_map_kernel(const __grid_constant__ ts_map_args t) {
  ts_elements(t.n_b * t.n_h * t.n_i, t.n_j, [&](int64_t r, int32_t j) {
    const int32_t i = (int32_t)(r % t.n_i);
    const int64_t by_h = r / t.n_i;
    const int32_t h = (int32_t)(by_h % t.n_h);
    const int64_t b = by_h / t.n_h;
    const float a = t.scale * t.a[ts_map_at(t.as, b, h, i, j)];
    const float x = t.x ? t.x[ts_map_at(t.xs, b, h, i, j)] : 1.0f;
    float *y = t.y + ts_map_at(t.ys, b, h, i, j);
    const float z = ts_map_op_of(t.op, a, x);
    *y = t.add ? *y + z : z;
  });
}

ts_err ts_cuda_map(const ts_map_args *t) {
  const int64_t n = t->n_b * t->n_h * t->n_i * t->n_j;
  if (n == 0) return TS_OK;
  return TS_CUDA_LAUNCH(ts_map_kernel, ts_elements_shape(n), *t);
}

/* ---- the largest --------------------------------------------------------- */

/* The first of the N_I largest numbers, N_J apart. */
static __device__ __forceinline__ int32_t ts_largest(const ts_max_args &t,
                                                     const float *x) {
  int32_t best = 0;
  float most = x[0];
  for (int32_t i = 1; i < t.n_i; i++) {
    const float v = x[(int64_t)i * t.n_j];
    if (v > most) {
      most = v;
      best = i;
    }
  }
  return best;
}

static __global__ void __launch_bounds__(TS_ELEMENTS_THREADS)
    ts_max_kernel(const __grid_constant__ ts_max_args t) {
  ts_elements(t.rows, t.n_j, [&](int64_t r, int32_t j) {
    const float *x = t.x + r * t.x_stride + j;
    t.y[r * t.y_stride + j] = x[(int64_t)ts_largest(t, x) * t.n_j];
  });
}

static __global__ void __launch_bounds__(TS_ELEMENTS_THREADS)
    ts_max_grad_kernel(const __grid_constant__ ts_max_args t) {
  ts_elements(t.rows, t.n_j, [&](int64_t r, int32_t j) {
    const int64_t at = r * t.x_stride + j;
    const int32_t best = ts_largest(t, t.x + at);
    const float dy = t.dy[r * t.y_stride + j];
    for (int32_t i = 0; i < t.n_i; i++)
      t.dx[at + (int64_t)i * t.n_j] = i == best ? dy : 0.0f;
  });
}

ts_err ts_cuda_max_forward(const ts_max_args *t) {
  if (t->rows * t->n_j == 0) return TS_OK;
  return TS_CUDA_LAUNCH(ts_max_kernel, ts_elements_shape(t->rows * t->n_j), *t);
}

ts_err ts_cuda_max_backward(const ts_max_args *t) {
  if (t->rows * t->n_j == 0) return TS_OK;
  return TS_CUDA_LAUNCH(ts_max_grad_kernel, ts_elements_shape(t->rows * t->n_j),
                        *t);
}
