/* unpack_emulated.cc - the kernels of input dist's receiving side on the CPU:
 * the same launches, by the emulation. */
#include "tests/support/emulated/cuda_emulate_run.h"

#include "cuda/shard/unpack_launch.cuh"
#include "tests/kernels/cuda_unpack.h"

static int64_t blocks_now = TS_GRID_X_MAX;

static ts_err unpack(const ts_unpack_args *a) {
  return ts_unpack_launch(a, blocks_now, NULL);
}

static ts_err bag_means(const ts_bag_means_args *a) {
  return ts_bag_means_launch(a, blocks_now, NULL);
}

static void set_blocks(int most) {
  blocks_now = most ? most : TS_GRID_X_MAX;
}

extern "C" {
const unpack_target unpack_emulated = {unpack,         bag_means, emulated_send,
                                       emulated_fetch, free,      set_blocks,
                                       nullptr,        nullptr};
}
