/* lookup.cu - the pooled lookup and its gradient by the ids' weights, on the
 * GPU (cuda/sparse/lookup_kernels.cuh). */
#include <string.h>

#include "cuda/runtime/cuda_impl.h"
#include "cuda/runtime/stream_run.cuh"

#include "cuda/sparse/lookup_launch.cuh"

static ts_err launch(const ts_lookup_args *a, const ts_weight_grad_args *g) {
  const ts_lookup_machine m = {ts_cuda_gpu_now()->n_sms, TS_GRID_X_MAX};
  ts_stream_run run(TS_TAG_SPARSE);
  return ts_lookup_launch(run, a, g, &m, run.stream);
}

static ts_err lookup(const ts_lookup_args *a) {
  return launch(a, NULL);
}

static ts_err weight_grad(const ts_weight_grad_args *a) {
  return launch(a->bags, a);
}

void ts_cuda_kernels_lookup(ts_kernels *k) {
  k->lookup = lookup;
  k->weight_grad = weight_grad;
}
