/* reduce_ranks.cu - sums over ranks, in rank order: the bits of the host's
 * (src/runtime/comm_reduce.c), whatever library moved the parts.  One thread
 * adds one element's parts; reads are coalesced over elements. */
#include <cuda_fp16.h>

#include "cuda/dense/codes.cuh"
#include "cuda/runtime/cuda_impl.h"
#include "cuda/runtime/each.cuh"

enum { THREADS = 256, MOST_BLOCKS = 4096, SUM = 0, MAX = 1 };

template <typename T>
__global__ void reduce(T *dst, const T *src, int w, int64_t stride, int64_t n,
                       int how, bool onto) {
  ts_each<THREADS>(n, [&](int64_t i) {
    T a = onto ? dst[i] : src[i];
    for (int r = !onto; r < w; r++) {
      const T x = src[r * stride + i];
      if (how == SUM)
        a += x;
      else if (how == MAX)
        a = x > a ? x : a;
      else
        a = x < a ? x : a;
    }
    dst[i] = a;
  });
}

/* In f32, rounded once. */
template <typename H>
__global__ void reduce_half(uint16_t *dst, const uint16_t *src, int w,
                            int64_t stride, int64_t n) {
  ts_each<THREADS>(n, [&](int64_t i) {
    float sum = 0;
    for (int r = 0; r < w; r++) sum += H::wide(src[r * stride + i]);
    dst[i] = (uint16_t)H::narrow(sum);
  });
}

template <typename T>
static ts_err launch(cudaStream_t stream, void *dst, const void *src, int w,
                     int64_t stride, int64_t n, int how, bool onto) {
  return TS_CUDA_LAUNCH(reduce<T>,
                        {ts_grid(n, THREADS, MOST_BLOCKS), THREADS, 0, stream},
                        (T *)dst, (const T *)src, w, stride, n, how, onto);
}

template <typename H>
static ts_err launch_half(cudaStream_t stream, void *dst, const void *src,
                          int w, int64_t stride, int64_t n) {
  return TS_CUDA_LAUNCH(reduce_half<H>,
                        {ts_grid(n, THREADS, MOST_BLOCKS), THREADS, 0, stream},
                        (uint16_t *)dst, (const uint16_t *)src, w, stride, n);
}

ts_err ts_cuda_reduce_ranks(cudaStream_t stream, void *dst, const void *src,
                            int w, int64_t stride, int64_t n, ts_dtype t,
                            int how, bool onto) {
  if (n == 0) return TS_OK;
  switch (t) {
  case TS_F32:
    return launch<float>(stream, dst, src, w, stride, n, how, onto);
  case TS_F64:
    return launch<double>(stream, dst, src, w, stride, n, how, onto);
  case TS_I64:
    return launch<int64_t>(stream, dst, src, w, stride, n, how, onto);
  case TS_BF16:
    if (how != SUM || onto) break;
    return launch_half<ts_code_bf16>(stream, dst, src, w, stride, n);
  case TS_F16:
    if (how != SUM || onto) break;
    return launch_half<ts_code_f16>(stream, dst, src, w, stride, n);
  default:
    break;
  }
  return ts_fail(TS_ERR_INTERNAL, "no such reduction of %s", ts_dtype_name(t));
}
