/* test_cuda_loss_gpu.c - the GPU's loss and metrics on a GPU; skipped where
 * there is none.
 * ranks: 1
 * seconds: 300 */
#include "tests/kernels/cuda_gpu.h"
#include "tests/kernels/cuda_loss.h"

static void kernels(ts_kernels *k) {
  ck_assert_ok(ts_kernels_fill(k, "cuda", NULL));
}

static Suite *suite(void) {
  static const loss_target gpu = {kernels,        cuda_gpu_run,  cuda_gpu_send,
                                  cuda_gpu_copy,  cuda_gpu_drop, false,
                                  cuda_gpu_start, cuda_gpu_stop};
  return cuda_loss_suite("cuda_loss_gpu", &gpu);
}

int main(int argc, char **argv) {
  return cuda_gpu_main(argc, argv, suite);
}
