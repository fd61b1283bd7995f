/* mask_launch.cuh - launches of cuda/dense/mask.h, on a GPU or emulated. */
#ifndef TS_CUDA_MASK_LAUNCH_CUH
#define TS_CUDA_MASK_LAUNCH_CUH

#include "cuda/dense/mask_kernels.cuh"

static inline ts_err ts_mask_launch(const ts_cuda_mask_args *a,
                                    cudaStream_t stream) {
  ts_err err = TS_OK;
  const int64_t parts = ts_cuda_mask_parts(a->batch);
  const dim3 block(TS_MASK_COLUMNS, TS_MASK_LANES);
  const unsigned columns = ts_grid(a->n, TS_MASK_COLUMNS, TS_GRID_X_MAX);
  const dim3 grid(columns, (unsigned)parts);
  if (parts > TS_GRID_YZ_MAX)
    return ts_fail(TS_ERR_INTERNAL, "%d samples in one batch", a->batch);
  if (a->g_half)
    err = TS_CUDA_LAUNCH((ts_mask_kernel<uint16_t, uint16_t>), grid, block, 0,
                         stream, *a);
  else if (a->out_half)
    err = TS_CUDA_LAUNCH((ts_mask_kernel<float, uint16_t>), grid, block, 0,
                         stream, *a);
  else
    err = TS_CUDA_LAUNCH((ts_mask_kernel<float, float>), grid, block, 0, stream,
                         *a);
  if (err == TS_OK && a->db)
    err = TS_CUDA_LAUNCH(ts_mask_sums_kernel, dim3(columns), block, 0, stream,
                         *a, parts);
  return err;
}

static inline ts_err ts_widen_bf16_launch(float *to, const uint16_t *from,
                                          int32_t n, cudaStream_t stream) {
  return TS_CUDA_LAUNCH(ts_widen_bf16_kernel,
                        dim3(ts_grid(n, 256, TS_GRID_X_MAX)), dim3(256), 0,
                        stream, to, from, n);
}

#endif
