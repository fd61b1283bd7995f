/* copies.cu - zeros and copies inside lane tasks, on the lane's stream. */
#include "cuda/cuda_impl.h"

static ts_err zero(void *dst, size_t bytes) {
  if (!bytes) return TS_OK;
  return TS_CUDA(cudaMemsetAsync(dst, 0, bytes, ts_cuda_stream_now()));
}

static ts_err copy(void *dst, const void *src, size_t bytes) {
  if (!bytes) return TS_OK;
  return TS_CUDA(cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDefault,
                                 ts_cuda_stream_now()));
}

/* Into pageable memory: CUDA stages it. */
static ts_err fetch(void *dst, const void *src, size_t bytes) {
  ts_err err = TS_OK;
  if (!bytes) return TS_OK;
  TS_TRY(copy(dst, src, bytes));
  TS_TRY(TS_CUDA(cudaStreamSynchronize(ts_cuda_stream_now())));
done:
  return err;
}

void ts_cuda_kernels_memory(ts_kernels *k) {
  k->zero = zero;
  k->copy = copy;
  k->fetch = fetch;
}
