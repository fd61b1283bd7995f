/* test_cuda_unpack_gpu.c - the kernels of input dist on a GPU; skipped
 * where there is none.
 * ranks: 1
 * seconds: 600 */
#include "tests/kernels/cuda_gpu.h"
#include "tests/kernels/cuda_unpack.h"

static ts_kernels kernels;

CUDA_GPU_ENTRY(unpack, ts_unpack_args, kernels.unpack)
CUDA_GPU_ENTRY(bag_means, ts_bag_means_args, kernels.bag_means)

static void start(void) {
  cuda_gpu_start();
  ck_assert_ok(ts_kernels_fill(&kernels, "cuda", NULL));
}

static Suite *suite(void) {
  static const unpack_target gpu = {unpack,        bag_means,     cuda_gpu_send,
                                    cuda_gpu_copy, cuda_gpu_drop, NULL,
                                    start,         cuda_gpu_stop};
  return cuda_unpack_suite("cuda_unpack_gpu", &gpu);
}

int main(int argc, char **argv) {
  return cuda_gpu_main(argc, argv, suite);
}
