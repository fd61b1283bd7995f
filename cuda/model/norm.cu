/* norm.cu - norms of rows: a warp has a row; sums of a row are those of its
 * lanes, then a tree's. */
#include "cuda/model/columns.cuh"
#include "cuda/model/lanes.cuh"

enum { TS_NORM_THREADS = 256, TS_NORM_WARPS = TS_NORM_THREADS / 32 };

/* Two numbers of a row give all its elements: y = f (x - shift); of softmax
 * y = f exp(scale x - shift). */
struct ts_norm_row {
  float f, shift;
  bool flat; /* l2: the norm is below eps */
};

static __device__ ts_norm_row ts_norm_row_of(const ts_norm_args &t,
                                             const float *x) {
  float sum = 0, most = -INFINITY;
  if (t.kind == TS_NORM_SOFTMAX) {
    ts_lanes_each(t.n, [&](int32_t c) { most = fmaxf(most, t.scale * x[c]); });
    for (int by = 16; by > 0; by /= 2)
      most = fmaxf(most, __shfl_xor_sync(0xffffffff, most, by));
    ts_lanes_each(t.n, [&](int32_t c) { sum += expf(t.scale * x[c] - most); });
    return {1 / ts_warp_sum(sum), most, false};
  }
  float mean = 0;
  if (t.kind == TS_NORM_LAYER) {
    ts_lanes_each(t.n, [&](int32_t c) { sum += x[c]; });
    mean = ts_warp_sum(sum) / (float)t.n;
  }
  sum = 0;
  ts_lanes_each(t.n,
                [&](int32_t c) { sum = fmaf(x[c] - mean, x[c] - mean, sum); });
  sum = ts_warp_sum(sum);
  if (t.kind != TS_NORM_L2)
    return {1 / sqrtf(sum / (float)t.n + t.eps), mean, false};
  return {1 / fmaxf(sqrtf(sum), t.eps), 0, sqrtf(sum) <= t.eps};
}

static __device__ __forceinline__ float
ts_norm_of(const ts_norm_args &t, const ts_norm_row &p, float x) {
  return t.kind == TS_NORM_SOFTMAX ? p.f * expf(t.scale * x - p.shift)
                                   : p.f * (x - p.shift);
}

/* body(row) for all rows, lanes of a warp together. */
template <class Body>
static __device__ __forceinline__ void ts_norm_each(int64_t rows, Body body) {
  for (int64_t r = (int64_t)blockIdx.x * TS_NORM_WARPS + threadIdx.x / 32;
       r < rows; r += (int64_t)gridDim.x * TS_NORM_WARPS)
    body(r);
}

static __global__ void __launch_bounds__(TS_NORM_THREADS)
    ts_norm_kernel(const __grid_constant__ ts_norm_args t) {
  ts_norm_each(t.rows, [&](int64_t r) {
    const float *x = t.x + r * t.x_stride;
    float *y = t.y + r * t.y_stride;
    const ts_norm_row p = ts_norm_row_of(t, x);
    __syncwarp(); /* y may be x */
    ts_lanes_each(t.n, [&](int32_t c) {
      y[c] = ts_norm_of(t, p, x[c]) * (t.gain ? __ldg(t.gain + c) : 1.0f) +
             (t.bias ? __ldg(t.bias + c) : 0.0f);
    });
  });
}

/* ---- backward ------------------------------------------------------------ */

static __global__ void __launch_bounds__(TS_NORM_THREADS)
    ts_norm_rows_kernel(const __grid_constant__ ts_norm_args t,
                        ts_norm_row *to) {
  ts_norm_each(t.rows, [&](int64_t r) {
    const ts_norm_row p = ts_norm_row_of(t, t.x + r * t.x_stride);
    if (threadIdx.x % 32 == 0) to[r] = p;
  });
}

struct ts_norm_gains {
  ts_norm_args t;
  const ts_norm_row *row;
  __device__ __forceinline__ ts_pair at(int64_t r, int32_t c) const {
    const double dy = t.dy[r * t.y_stride + c];
    return {dy * ts_norm_of(t, row[r], t.x[r * t.x_stride + c]), dy};
  }
};

static __global__ void __launch_bounds__(TS_NORM_THREADS)
    ts_norm_grad_kernel(const __grid_constant__ ts_norm_args t) {
  ts_norm_each(t.rows, [&](int64_t r) {
    const float *x = t.x + r * t.x_stride, *dy = t.dy + r * t.y_stride;
    float *dx = t.dx + r * t.x_stride;
    const ts_norm_row p = ts_norm_row_of(t, x);
    const auto grad = [&](int32_t c) {
      return dy[c] * (t.gain ? __ldg(t.gain + c) : 1.0f);
    };
    float dot = 0, sum = 0;
    ts_lanes_each(t.n, [&](int32_t c) {
      dot = fmaf(grad(c), ts_norm_of(t, p, x[c]), dot);
      sum += grad(c);
    });
    dot = p.flat ? 0.0f : ts_warp_sum(dot);
    sum = t.kind == TS_NORM_LAYER ? ts_warp_sum(sum) / (float)t.n : 0.0f;
    if (t.kind == TS_NORM_LAYER || t.kind == TS_NORM_RMS) dot /= (float)t.n;
    ts_lanes_each(t.n, [&](int32_t c) {
      const float y = ts_norm_of(t, p, x[c]), g = grad(c);
      dx[c] = t.kind == TS_NORM_SOFTMAX ? t.scale * y * (g - dot)
                                        : p.f * (g - sum - y * dot);
    });
  });
}

static ts_cuda_shape shape_of(const ts_norm_args *t) {
  return ts_cuda_strided(t->rows, TS_NORM_WARPS, TS_NORM_THREADS);
}

ts_err ts_cuda_norm_forward(const ts_norm_args *t) {
  if (t->rows == 0) return TS_OK;
  return TS_CUDA_LAUNCH(ts_norm_kernel, shape_of(t), *t);
}

/* Sums over rows first: dx may take dy's place. */
ts_err ts_cuda_norm_backward(const ts_norm_args *t) {
  ts_err err = TS_OK;
  ts_norm_gains f = {*t, NULL};
  ts_norm_row *rows = NULL;
  const bool sums = t->dgain || t->dbias;
  const size_t bytes = sums ? (size_t)t->rows * sizeof *rows : 0;
  TS_TRY(ts_cuda_take(&rows, bytes, TS_TAG_ACTIVATIONS));
  if (bytes) TS_TRY(TS_CUDA_LAUNCH(ts_norm_rows_kernel, shape_of(t), *t, rows));
  f.row = rows;
  TS_TRY(ts_columns(f, t->rows, t->n, t->dgain, t->dbias));
  if (t->rows) TS_TRY(TS_CUDA_LAUNCH(ts_norm_grad_kernel, shape_of(t), *t));
done:
  ts_cuda_give(rows, bytes, TS_TAG_ACTIVATIONS);
  return err;
}
