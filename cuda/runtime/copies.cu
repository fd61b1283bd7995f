/* copies.cu - zeros and copies inside lane tasks, on the lane's stream. */
#include "cuda/runtime/cuda_impl.h"

static ts_err zero(void *dst, size_t bytes) {
  return ts_cuda_set(dst, 0, bytes, ts_cuda_stream_now());
}

/* CUDA does not know pageable memory. */
static bool is_pageable(const void *p) {
  cudaPointerAttributes at;
  if (cudaPointerGetAttributes(&at, p) == cudaSuccess)
    return at.type == cudaMemoryTypeUnregistered;
  (void)cudaGetLastError();
  return true;
}

ts_err ts_cuda_copy_begins(const void *dst, const void *src) {
  if (!ts_graph_now() || (!is_pageable(dst) && !is_pageable(src))) return TS_OK;
  return ts_graph_cut("memory that is not page-locked is copied");
}

static ts_err copy(void *dst, const void *src, size_t bytes) {
  ts_err err = TS_OK;
  if (!bytes) return TS_OK;
  TS_TRY(ts_cuda_copy_begins(dst, src));
  TS_TRY(ts_cuda_move(dst, src, bytes, ts_cuda_stream_now()));
done:
  return err;
}

/* Into pageable memory: CUDA stages it. */
static ts_err fetch(void *dst, const void *src, size_t bytes) {
  ts_err err = TS_OK;
  if (!bytes) return TS_OK;
  TS_TRY(ts_graph_cut("the host fetches from the device"));
  TS_TRY(ts_cuda_settle_now());
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
