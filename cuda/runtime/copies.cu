/* copies.cu - zeros and copies inside lane tasks, on the lane's stream. */
#include <string.h>

#include "cuda/runtime/cuda_impl.h"

ts_err ts_cuda_zero(void *dst, size_t bytes) {
  return ts_cuda_set(dst, 0, bytes);
}

ts_err ts_cuda_copy_begins(const void *dst, const void *src) {
  if (!ts_graph_now() ||
      (!ts_cuda_is_pageable(dst) && !ts_cuda_is_pageable(src)))
    return TS_OK;
  return ts_graph_cut("memory that is not page-locked is copied");
}

ts_err ts_cuda_copy(void *dst, const void *src, size_t bytes) {
  if (!bytes) return TS_OK;
  const ts_err err = ts_cuda_copy_begins(dst, src);
  return err == TS_OK ? ts_cuda_move(dst, src, bytes) : err;
}

/* Into pageable memory: CUDA stages it. */
ts_err ts_cuda_fetch(void *dst, const void *src, size_t bytes) {
  if (!bytes) return TS_OK;
  TS_DO(ts_graph_cut("the host fetches from the device"));
  TS_DO(ts_cuda_settle_now());
  TS_DO(ts_cuda_copy(dst, src, bytes));
  return TS_CUDA(cudaStreamSynchronize(ts_cuda_stream_now()));
}

/* ---- put ----------------------------------------------------------------- */

/* A few of the host's bytes go as parameters of a launch: nothing of the
 * caller's is read later, nobody waits, and a graph that has recorded it can
 * be played again.  A launch takes 4 KB of parameters along, since CUDA 12.1
 * (and drivers of it) 32,764 bytes: the larger kernel is for more bytes than
 * the smaller one has. */
enum {
  TS_PUT_THREADS = 256,
  TS_PUT_BYTES = 4000, /* of a launch */
#if !defined(__CUDACC__) || CUDART_VERSION >= 12010
  TS_PUT_BYTES_MOST = 32000
#else
  TS_PUT_BYTES_MOST = TS_PUT_BYTES
#endif
};

template <int BYTES> struct ts_put_words {
  int32_t n; /* bytes, in whole words but for the last launch of a put */
  alignas(4) uint8_t byte[BYTES];
};
static_assert(sizeof(ts_put_words<TS_PUT_BYTES>) + 8 <= 4096, "parameters");
static_assert(sizeof(ts_put_words<TS_PUT_BYTES_MOST>) + 8 <= 32764,
              "parameters");

template <int BYTES>
static __global__ void __launch_bounds__(TS_PUT_THREADS)
    ts_put_kernel(uint8_t *dst, const __grid_constant__ ts_put_words<BYTES> p) {
  const bool words = (uintptr_t)dst % 4 == 0;
  const int n_words = words ? p.n / 4 : 0;
  for (int i = threadIdx.x; i < n_words; i += TS_PUT_THREADS)
    ((uint32_t *)dst)[i] = ((const uint32_t *)p.byte)[i];
  for (int i = 4 * n_words + threadIdx.x; i < p.n; i += TS_PUT_THREADS)
    dst[i] = p.byte[i];
}

template <int BYTES>
static ts_err put_some(uint8_t *dst, const void *src, size_t bytes) {
  ts_put_words<BYTES> p;
  p.n = (int32_t)bytes;
  memcpy(p.byte, src, bytes);
  memset(p.byte + bytes, 0, sizeof p.byte - bytes); /* the same each time */
  return TS_CUDA_LAUNCH((ts_put_kernel<BYTES>), {1, TS_PUT_THREADS}, dst, p);
}

ts_err ts_cuda_put(void *dst, const void *src, size_t bytes) {
  ts_err err = TS_OK;
  const size_t most = TS_PUT_BYTES_MOST;
  for (size_t at = 0; at < bytes && err == TS_OK; at += most) {
    const size_t n = bytes - at < most ? bytes - at : most;
    uint8_t *const to = (uint8_t *)dst + at;
    const char *const from = (const char *)src + at;
    err = n <= TS_PUT_BYTES ? put_some<TS_PUT_BYTES>(to, from, n)
                            : put_some<TS_PUT_BYTES_MOST>(to, from, n);
  }
  return err;
}
