/* test_cuda_update_gpu.c - the GPU's kernels of row updates on a GPU; skipped
 * where there is none.
 * ranks: 1
 * seconds: 600 */
#include "cuda/sparse/update.h"
#include "tests/kernels/cuda_gpu.h"
#include "tests/kernels/cuda_update.h"

CUDA_GPU_ENTRY(row_update, ts_row_update_args, ts_cuda_row_update)
CUDA_GPU_ENTRY(row_stage, ts_row_stage_args, ts_cuda_row_stage)
CUDA_GPU_ENTRY(sort, ts_sort_args, ts_cuda_sort)

static Suite *suite(void) {
  static const update_target gpu = {
      row_update,    row_stage, sort,           cuda_gpu_send, cuda_gpu_copy,
      cuda_gpu_drop, NULL,      cuda_gpu_start, cuda_gpu_stop};
  return cuda_update_suite("cuda_update_gpu", &gpu);
}

int main(int argc, char **argv) {
  return cuda_gpu_main(argc, argv, suite);
}
