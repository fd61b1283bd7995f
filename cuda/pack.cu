/* pack.cu - the sending side of input dist on the GPU
 * (cuda/pack_kernels.cuh, cuda/distinct_kernels.cuh). */
#include "cuda/cuda_impl.h"
#include "cuda/pack.h"
#include "cuda/pack_run.cuh"
#include "cuda/update.h"

namespace {
struct pack_run {
  cudaStream_t stream = ts_cuda_stream_now();

  ts_err take(void **p, size_t bytes) {
    return ts_cuda_take(p, bytes, TS_TAG_INPUT, stream);
  }
  void give(void *p, size_t bytes) {
    ts_cuda_give(p, bytes, TS_TAG_INPUT, stream);
  }
  ts_err clear(void *p, int byte, size_t bytes) {
    return TS_CUDA(cudaMemsetAsync(p, byte, bytes, stream));
  }
  ts_err copy(void *dst, const void *src, size_t bytes) {
    return TS_CUDA(cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDefault, stream));
  }
  ts_err sort(const ts_sort_args *a) {
    return ts_cuda_sort(a);
  }
  template <class K, class... A>
  ts_err launch(K kernel, dim3 grid, unsigned block, A... args) {
    return TS_CUDA_LAUNCH(kernel, grid, block, 0, stream, args...);
  }
  static int64_t blocks() {
    return (int64_t)ts_cuda_gpu_now()->n_sms * (2048 / TS_SCAN_BLOCK);
  }
};
} // namespace

ts_err ts_cuda_bags_check(const ts_bags_args *a) {
  pack_run run;
  return ts_bags_check_on(run, a);
}

ts_err ts_cuda_bags_offsets(const ts_bags_args *a) {
  pack_run run;
  return ts_bags_offsets_on(run, a);
}

ts_err ts_cuda_bags_distinct(const ts_distinct_args *a) {
  pack_run run;
  return ts_bags_distinct_on(run, a);
}

ts_err ts_cuda_pack_measure(const ts_pack_args *a) {
  pack_run run;
  return ts_pack_measure_on(run, a);
}

ts_err ts_cuda_pack_write(const ts_pack_args *a) {
  pack_run run;
  return ts_pack_write_on(run, a);
}

void ts_cuda_kernels_pack(ts_kernels *k) {
  k->bags_check = ts_cuda_bags_check;
  k->bags_offsets = ts_cuda_bags_offsets;
  k->bags_distinct = ts_cuda_bags_distinct;
  k->pack_measure = ts_cuda_pack_measure;
  k->pack_write = ts_cuda_pack_write;
}
