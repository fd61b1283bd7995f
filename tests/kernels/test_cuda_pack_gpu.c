/* test_cuda_pack_gpu.c - the GPU's kernels of input dist's sending side on a
 * GPU; skipped where there is none.
 * ranks: 1
 * seconds: 600 */
#include "cuda/shard/pack.h"
#include "tests/kernels/cuda_gpu.h"
#include "tests/kernels/cuda_pack.h"

CUDA_GPU_ENTRY(bags_check, ts_bags_args, ts_cuda_bags_check)
CUDA_GPU_ENTRY(bags_offsets, ts_bags_args, ts_cuda_bags_offsets)
CUDA_GPU_ENTRY(bags_distinct, ts_distinct_args, ts_cuda_bags_distinct)
CUDA_GPU_ENTRY(pack_measure, ts_pack_args, ts_cuda_pack_measure)
CUDA_GPU_ENTRY(pack_write, ts_pack_args, ts_cuda_pack_write)

static Suite *suite(void) {
  static const pack_target gpu = {bags_check,    bags_offsets,  bags_distinct,
                                  pack_measure,  pack_write,    cuda_gpu_send,
                                  cuda_gpu_copy, cuda_gpu_drop, cuda_gpu_start,
                                  cuda_gpu_stop};
  return cuda_pack_suite("cuda_pack_gpu", &gpu);
}

int main(int argc, char **argv) {
  return cuda_gpu_main(argc, argv, suite);
}
