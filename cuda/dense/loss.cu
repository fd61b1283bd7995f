/* loss.cu - loss and metrics on the GPU (cuda/dense/loss_kernels.cuh). */
#include "cuda/runtime/cuda_impl.h"
extern "C" {
#include "dense/tally.h"
}
#include "cuda/dense/loss_run.cuh"
#include "cuda/runtime/stream_run.cuh"

static ts_err bce(const ts_bce_args *a) {
  return ts_bce_run(a, ts_stream_run(TS_TAG_ACTIVATIONS));
}

static ts_err tally(const ts_tally_args *a) {
  return ts_tally_run(a, ts_stream_run(TS_TAG_METRICS));
}

void ts_cuda_kernels_loss(ts_kernels *k) {
  k->bce = bce;
  k->tally = tally;
}
