/* lookup.cu - the pooled lookup and its gradient by the ids' weights, on the
 * GPU (cuda/lookup_kernels.cuh). */
#include <string.h>

#include "cuda/cuda_impl.h"
#include "cuda/lookup_launch.cuh"

static ts_lookup_machine machine(void) {
  return {ts_cuda_gpu_now()->n_sms, TS_GRID_X_MAX};
}

static ts_err lookup(const ts_lookup_args *a) {
  const ts_lookup_machine m = machine();
  return ts_lookup_launch(a, NULL, &m, ts_cuda_stream_now());
}

static ts_err weight_grad(const ts_weight_grad_args *a) {
  const ts_lookup_machine m = machine();
  return ts_lookup_launch(a->bags, a, &m, ts_cuda_stream_now());
}

void ts_cuda_kernels_lookup(ts_kernels *k) {
  k->lookup = lookup;
  k->weight_grad = weight_grad;
}
