/* stream_run.cuh - who launches what *_run.cuh ask for: the stream of the
 * current lane, with scratch in its order.  Tests have one that runs kernels
 * on the CPU. */
#ifndef TS_CUDA_STREAM_RUN_CUH
#define TS_CUDA_STREAM_RUN_CUH

#include "cuda/runtime/cuda_impl.h"
#include "cuda/sparse/update.h"

struct ts_stream_run {
  ts_tag tag; /* of scratch */
  cudaStream_t stream = ts_cuda_stream_now();

  explicit ts_stream_run(ts_tag t) : tag(t) {
  }
  ts_err take(void **p, size_t bytes) {
    return ts_cuda_take(p, bytes, tag, stream);
  }
  void give(void *p, size_t bytes) {
    ts_cuda_give(p, bytes, tag, stream);
  }
  ts_err clear(void *p, size_t bytes, int byte = 0) {
    return ts_cuda_set(p, byte, bytes, stream);
  }
  /* To pageable memory of the host it would wait. */
  ts_err copy(void *dst, const void *src, size_t bytes) {
    const ts_err err = ts_cuda_copy_begins(dst, src);
    if (err != TS_OK) return err;
    return ts_cuda_move(dst, src, bytes, stream);
  }
  static ts_err sort(const ts_sort_args *a) {
    return ts_cuda_sort(a);
  }
  template <class K, class... A>
  ts_err launch(K kernel, dim3 grid, unsigned block, A... args) {
    return TS_CUDA_LAUNCH(kernel, grid, block, 0, stream, args...);
  }
};

#endif
