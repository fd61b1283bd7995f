/* act.cu - activations and dropout. */
#include "cuda/model/columns.cuh"
#include "cuda/model/elements.cuh"
#include "cuda/sparse/rounding.cuh"

/* act(x) and its slope there; the kind is the same for all threads. */
static __device__ __forceinline__ float ts_act(const ts_act_args &t, float x,
                                               int32_t c, float *slope) {
  if (t.kind == TS_ACT_GELU) {
    const float phi = 0.5f * erfcf(-0.70710678f * x);
    *slope = phi + 0.39894228f * x * expf(-0.5f * x * x);
    return x * phi;
  }
  if (t.kind == TS_ACT_TANH) {
    const float y = tanhf(x), e = expf(-2 * fabsf(x)), f = 1 + e;
    *slope = 4 * e / (f * f);
    return y;
  }
  if (t.kind == TS_ACT_SILU || t.kind == TS_ACT_SIGMOID) {
    const float e = expf(-fabsf(x)), f = 1 / (1 + e);
    const float s = x >= 0 ? f : e * f, rest = x >= 0 ? e * f : f;
    *slope = t.kind == TS_ACT_SILU ? s * (1 + x * rest) : s * rest;
    return t.kind == TS_ACT_SILU ? x * s : s;
  }
  const float leak = t.kind == TS_ACT_PRELU   ? __ldg(t.slope + c)
                     : t.kind == TS_ACT_LEAKY ? t.leak
                                              : 0.0f;
  *slope = x > 0 ? 1.0f : leak;
  if (t.kind == TS_ACT_RELU) return x < 0 ? 0.0f : x;
  return x > 0 ? x : leak * x;
}

static __global__ void __launch_bounds__(TS_ELEMENTS_THREADS)
    ts_act_kernel(const __grid_constant__ ts_act_args t) {
  ts_elements(t.rows, t.n, [&](int64_t r, int32_t c) {
    float slope;
    t.y[r * t.y_stride + c] = ts_act(t, t.x[r * t.x_stride + c], c, &slope);
  });
}

static __global__ void __launch_bounds__(TS_ELEMENTS_THREADS)
    ts_act_grad_kernel(const __grid_constant__ ts_act_args t) {
  ts_elements(t.rows, t.n, [&](int64_t r, int32_t c) {
    float slope;
    (void)ts_act(t, t.x[r * t.x_stride + c], c, &slope);
    t.dx[r * t.x_stride + c] = t.dy[r * t.y_stride + c] * slope;
  });
}

struct ts_act_slopes {
  ts_act_args t;
  __device__ __forceinline__ ts_pair at(int64_t r, int32_t c) const {
    const float x = t.x[r * t.x_stride + c];
    return {x < 0 ? (double)t.dy[r * t.y_stride + c] * x : 0.0, 0.0};
  }
};

ts_err ts_cuda_act_forward(const ts_act_args *t) {
  if (t->rows * t->n == 0) return TS_OK;
  return TS_CUDA_LAUNCH(ts_act_kernel, ts_elements_shape(t->rows * t->n), *t);
}

/* Slopes' first: dx may take dy's place. */
ts_err ts_cuda_act_backward(const ts_act_args *t) {
  const ts_act_slopes f = {*t};
  TS_DO(ts_columns(f, t->rows, t->n, t->dslope, (float *)NULL));
  if (t->rows * t->n == 0) return TS_OK;
  return TS_CUDA_LAUNCH(ts_act_grad_kernel, ts_elements_shape(t->rows * t->n),
                        *t);
}

/* ---- dropout ------------------------------------------------------------- */

/* A thread has the four columns of a call of Philox. */
static __global__ void __launch_bounds__(TS_ELEMENTS_THREADS)
    ts_dropout_kernel(const __grid_constant__ ts_dropout_args t) {
  const float keep = 1 / (1 - t.p);
  const uint64_t key = (uint64_t)t.key[1] << 32 | t.key[0];
  ts_elements(t.rows, (int32_t)ts_ceil_div(t.n, 4), [&](int64_t r, int32_t q) {
    uint32_t word[4];
    const int64_t row = t.first + (t.sample ? (int64_t)t.sample[r] : r);
    const uint32_t place = t.sample ? (uint32_t)t.position[r] : 0;
    ts_philox_words(word, (uint64_t)row, (uint32_t)q, place, key);
#pragma unroll
    for (int k = 0; k < 4; k++) {
      const int32_t c = 4 * q + k;
      if (c >= t.n) break;
      const float unit = (float)(word[k] >> 8) * 0x1p-24f;
      t.y[r * t.y_stride + c] =
          unit < t.p ? 0.0f : keep * t.x[r * t.x_stride + c];
    }
  });
}

ts_err ts_cuda_dropout(const ts_dropout_args *t) {
  const int64_t n = t->rows * ts_ceil_div(t->n, 4);
  if (n == 0) return TS_OK;
  return TS_CUDA_LAUNCH(ts_dropout_kernel, ts_elements_shape(n), *t);
}
