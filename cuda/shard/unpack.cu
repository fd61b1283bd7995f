/* unpack.cu - input dist's receiving side on the GPU
 * (cuda/shard/unpack_kernels.cuh). */
#include "cuda/runtime/cuda_impl.h"

#include "cuda/shard/unpack_launch.cuh"

static ts_err unpack(const ts_unpack_args *a) {
  return ts_unpack_launch(a, TS_GRID_X_MAX, ts_cuda_stream_now());
}

static ts_err bag_means(const ts_bag_means_args *a) {
  return ts_bag_means_launch(a, TS_GRID_X_MAX, ts_cuda_stream_now());
}

void ts_cuda_kernels_unpack(ts_kernels *k) {
  k->unpack = unpack;
  k->bag_means = bag_means;
}
