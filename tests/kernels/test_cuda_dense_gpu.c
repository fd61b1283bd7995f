/* test_cuda_dense_gpu.c - the same kernels as test_cuda_dense on a GPU; skipped
 * where there is none.
 * ranks: 1
 * seconds: 600 */
#include "tests/kernels/cuda_dense.h"
#include "tests/kernels/cuda_gpu.h"

static void kernels(ts_kernels *k) {
  ck_assert_ok(ts_kernels_fill(k, "cuda", NULL));
}

static Suite *suite(void) {
  static const dense_target gpu = {
      kernels,       cuda_gpu_run,   cuda_gpu_send,
      cuda_gpu_copy, cuda_gpu_drop,  2, /* twice: the same bits */
      NULL,          cuda_gpu_start, cuda_gpu_stop};
  return cuda_dense_suite("cuda_dense_gpu", &gpu);
}

int main(int argc, char **argv) {
  return cuda_gpu_main(argc, argv, suite);
}
