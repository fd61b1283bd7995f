/* interact.cu - DLRM's dot interaction on the GPU
 * (cuda/dense/interact_kernels.cuh,
 * cuda/dense/interact_half.cuh). */
#include "cuda/runtime/cuda_impl.h"
#include "cuda/dense/interact_launch.cuh"
#include "cuda/runtime/stream_run.cuh"

enum { SHARED_PLAIN = 48 << 10, SHARED_GOOD = 72 << 10, BLOCKS_EACH = 16 };

/* What ts_interact_launch asks of a stream. */
struct interact_run : ts_stream_run {
  interact_run() : ts_stream_run(TS_TAG_ACTIVATIONS) {
  }
  ts_err put(void *dst, const void *src, size_t bytes) {
    ts_kernels views;
    ts_cuda_kernels_views(&views);
    return views.put(dst, src, bytes);
  }
  template <class K, class P>
  ts_err launch_shared(K kernel, dim3 grid, unsigned block, int64_t bytes,
                       const P &params) {
    if (bytes > SHARED_PLAIN) {
      const cudaFuncAttribute most =
          cudaFuncAttributeMaxDynamicSharedMemorySize;
      /* Always the same: less would be too little for a recorded launch. */
      const ts_err err = TS_CUDA(cudaFuncSetAttribute(
          kernel, most, ts_cuda_gpu_now()->shared_bytes_max));
      if (err != TS_OK) return err;
    }
    return TS_CUDA_LAUNCH(kernel, grid, block, (size_t)bytes, stream, params);
  }
};

static ts_err launch(const ts_interact_args *a, bool back) {
  const ts_cuda_gpu *gpu = ts_cuda_gpu_now();
  interact_run run;
  ts_interact_machine m;
  m.shared_max = gpu->shared_bytes_max;
  m.shared_good = SHARED_GOOD;
  m.blocks = (int64_t)gpu->n_sms * BLOCKS_EACH;
  m.wide = gpu->n_sms * INT64_C(2);
  return ts_interact_launch(a, back, &m, run);
}

static ts_err forward(const ts_interact_args *a) {
  return launch(a, false);
}

static ts_err backward(const ts_interact_args *a) {
  return launch(a, true);
}

void ts_cuda_kernels_interact(ts_kernels *k) {
  k->interact_forward = k->interact_forward_half = forward;
  k->interact_backward = k->interact_backward_half = backward;
}
