/* mask.cu - cuda/dense/mask.h on the GPU. */
#include "cuda/runtime/cuda_impl.h"
#include "cuda/dense/mask_launch.cuh"

ts_err ts_cuda_mask(const ts_cuda_mask_args *a, void *stream) {
  return ts_mask_launch(a, (cudaStream_t)stream);
}

ts_err ts_cuda_widen_bf16(float *to, const uint16_t *from, int32_t n,
                          void *stream) {
  return ts_widen_bf16_launch(to, from, n, (cudaStream_t)stream);
}
