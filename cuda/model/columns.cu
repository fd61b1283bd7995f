/* columns.cu - sums over the batch and what is done with them by column:
 * batch norm, dice. */
#include "cuda/model/columns.cuh"
#include "cuda/model/elements.cuh"

struct ts_column_terms {
  ts_column_sums_args t;
  __device__ __forceinline__ ts_pair at(int64_t r, int32_t c) const {
    const double a = t.a[r * t.a_stride + c];
    return {a, t.b ? a * t.b[r * t.b_stride + c] : a * a};
  }
};

ts_err ts_cuda_column_sums(const ts_column_sums_args *t) {
  const ts_column_terms f = {*t};
  return ts_columns(f, t->rows, t->n, t->sum, t->product);
}

static __global__ void __launch_bounds__(TS_ELEMENTS_THREADS)
    ts_column_apply_kernel(const __grid_constant__ ts_column_apply_args t) {
  ts_elements(t.rows, t.n, [&](int64_t r, int32_t c) {
    const float vz = t.z ? __ldg(t.v + c) * t.z[r * t.z_stride + c] : 0.0f;
    t.y[r * t.y_stride + c] =
        __ldg(t.u + c) * t.x[r * t.x_stride + c] + vz + __ldg(t.w + c);
  });
}

ts_err ts_cuda_column_apply(const ts_column_apply_args *t) {
  if (t->rows * t->n == 0) return TS_OK;
  return TS_CUDA_LAUNCH(ts_column_apply_kernel,
                        ts_elements_shape(t->rows * t->n), *t);
}

/* ---- batch norm ---------------------------------------------------------- */

static __global__ void __launch_bounds__(TS_ELEMENTS_THREADS)
    ts_batch_norm_kernel(const __grid_constant__ ts_batch_norm_args t) {
  ts_each<TS_ELEMENTS_THREADS>(t.n, [&](int64_t c) {
    double mean = t.running_mean ? t.running_mean[c] : 0;
    double var = t.running_var ? t.running_var[c] : 1;
    const double m = t.momentum, n = t.count;
    if (t.training && n > 0) {
      mean = t.sum[c] / n;
      var = max(0.0, t.product[c] / n - mean * mean);
      if (t.running_mean && isfinite(t.sum[c]) && isfinite(t.product[c])) {
        const double wide = n > 1 ? var * n / (n - 1) : var;
        t.running_mean[c] = (float)((1 - m) * t.running_mean[c] + m * mean);
        t.running_var[c] = (float)((1 - m) * t.running_var[c] + m * wide);
      }
    }
    const double rstd = 1 / sqrt(var + t.eps);
    const double u = rstd * (t.gain ? t.gain[c] : 1.0f);
    t.mean[c] = (float)mean;
    t.rstd[c] = (float)rstd;
    t.u[c] = (float)u;
    t.w[c] = (float)((t.bias ? t.bias[c] : 0.0f) - u * mean);
  });
}

static __global__ void __launch_bounds__(TS_ELEMENTS_THREADS)
    ts_batch_norm_grad_kernel(const __grid_constant__ ts_batch_norm_args t) {
  ts_each<TS_ELEMENTS_THREADS>(t.n, [&](int64_t c) {
    const double n = t.count, mean = t.mean[c], rstd = t.rstd[c];
    const double u = rstd * (t.gain ? t.gain[c] : 1.0f);
    const double p = (t.product[c] - mean * t.sum[c]) * rstd;
    const double v = n > 0 ? -u * rstd * p / n : 0;
    if (t.dbias) t.dbias[c] = (float)t.own_sum[c];
    if (t.dgain)
      t.dgain[c] = (float)((t.own_product[c] - mean * t.own_sum[c]) * rstd);
    t.u[c] = (float)u;
    t.v[c] = (float)v;
    t.w[c] = (float)((n > 0 ? -u * t.sum[c] / n : 0) - v * mean);
  });
}

ts_err ts_cuda_batch_norm_forward(const ts_batch_norm_args *t) {
  if (t->n == 0) return TS_OK;
  return TS_CUDA_LAUNCH(ts_batch_norm_kernel, ts_elements_shape(t->n), *t);
}

ts_err ts_cuda_batch_norm_backward(const ts_batch_norm_args *t) {
  if (t->n == 0) return TS_OK;
  return TS_CUDA_LAUNCH(ts_batch_norm_grad_kernel, ts_elements_shape(t->n), *t);
}
