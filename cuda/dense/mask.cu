/* mask.cu - masks, sums of columns and conversions beside cuBLASLt (mask.h).
 *
 * A block has 32 columns of 256 rows, a thread every eighth of them in one
 * column; sums are added in the order of the threads, and the blocks' sums in
 * the same way by one block for 32 columns.  So the order is fixed, but not
 * the host's. */
#include "cuda/dense/mask.h"

#include "cuda/dense/half.cuh"

enum { TS_MASK_COLUMNS = 32, TS_MASK_LANES = 8 };

/* The sum of the threads of a column, in their order; thread 0 has it. */
__device__ inline float ts_mask_sum(float mine) {
  __shared__ float all[TS_MASK_LANES][TS_MASK_COLUMNS];
  all[threadIdx.y][threadIdx.x] = mine;
  __syncthreads();
  float sum = 0;
  if (threadIdx.y == 0)
    for (int k = 0; k < TS_MASK_LANES; k++) sum += all[k][threadIdx.x];
  return sum;
}

template <class G, class Out>
__global__ void __launch_bounds__(TS_MASK_COLUMNS *TS_MASK_LANES)
    ts_mask_kernel(ts_cuda_mask_args a) {
  const int32_t k = (int32_t)(blockIdx.x * TS_MASK_COLUMNS + threadIdx.x);
  const int64_t from = (int64_t)blockIdx.y * TS_MASK_ROWS;
  const int64_t to =
      from + TS_MASK_ROWS < a.batch ? from + TS_MASK_ROWS : a.batch;
  const G *g = (const G *)a.g, *y = (const G *)a.y;
  Out *out = (Out *)a.out;
  float sum = 0;
  if (k < a.n)
#pragma unroll 4
    for (int64_t i = from + threadIdx.y; i < to; i += TS_MASK_LANES) {
      const bool on = !y || ts_to_float(y[i * a.y_stride + k]) > 0.0f;
      const float v = on ? ts_to_float(g[i * a.g_stride + k]) : 0.0f;
      sum += v;
      if (out) ts_put_float(&out[i * a.out_stride + k], v);
    }
  if (!a.db) return;
  sum = ts_mask_sum(sum);
  if (threadIdx.y == 0 && k < a.n) a.parts[(int64_t)blockIdx.y * a.n + k] = sum;
}

__global__ void __launch_bounds__(TS_MASK_COLUMNS *TS_MASK_LANES)
    ts_mask_sums_kernel(ts_cuda_mask_args a, int64_t n_parts) {
  const int32_t k = (int32_t)(blockIdx.x * TS_MASK_COLUMNS + threadIdx.x);
  float sum = 0;
  if (k < a.n)
#pragma unroll 4
    for (int64_t p = threadIdx.y; p < n_parts; p += TS_MASK_LANES)
      sum += a.parts[p * a.n + k];
  sum = ts_mask_sum(sum);
  if (threadIdx.y == 0 && k < a.n) a.db[k] = sum;
}

__global__ void ts_widen_bf16_kernel(float *to, const uint16_t *from,
                                     int32_t n) {
  const int32_t i = (int32_t)(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) to[i] = ts_wide_bf16(from[i]);
}

ts_err ts_cuda_mask(const ts_cuda_mask_args *a, cudaStream_t stream) {
  ts_err err = TS_OK;
  const int64_t parts = ts_cuda_mask_parts(a->batch);
  const dim3 block(TS_MASK_COLUMNS, TS_MASK_LANES);
  const unsigned columns = ts_grid(a->n, TS_MASK_COLUMNS, TS_GRID_X_MAX);
  const ts_cuda_shape all = {dim3(columns, (unsigned)parts), block, 0, stream};
  if (parts > TS_GRID_YZ_MAX)
    return ts_fail(TS_ERR_INTERNAL, "%d samples in one batch", a->batch);
  if (a->g_half)
    err = TS_CUDA_LAUNCH((ts_mask_kernel<uint16_t, uint16_t>), all, *a);
  else if (a->out_half)
    err = TS_CUDA_LAUNCH((ts_mask_kernel<float, uint16_t>), all, *a);
  else
    err = TS_CUDA_LAUNCH((ts_mask_kernel<float, float>), all, *a);
  if (err == TS_OK && a->db)
    err = TS_CUDA_LAUNCH(ts_mask_sums_kernel, {columns, block, 0, stream}, *a,
                         parts);
  return err;
}

ts_err ts_cuda_widen_bf16(float *to, const uint16_t *from, int32_t n,
                          cudaStream_t stream) {
  return TS_CUDA_LAUNCH(ts_widen_bf16_kernel,
                        {ts_grid(n, 256, TS_GRID_X_MAX), 256, 0, stream}, to,
                        from, n);
}
