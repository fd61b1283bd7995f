/* test_cuda_views_gpu.c - the GPU's kernels of views, wires and positions on a
 * GPU; skipped where there is none.
 * ranks: 1
 * seconds: 600 */
#include "tests/kernels/cuda_gpu.h"
#include "tests/kernels/cuda_views.h"

static void kernels(ts_kernels *k) {
  ck_assert_ok(ts_kernels_fill(k, "cuda", NULL));
}

static Suite *suite(void) {
  static const block_target gpu = {kernels,        cuda_gpu_run,  cuda_gpu_send,
                                   cuda_gpu_copy,  cuda_gpu_drop, NULL,
                                   cuda_gpu_start, cuda_gpu_stop};
  return cuda_views_suite("cuda_views_gpu", &gpu);
}

int main(int argc, char **argv) {
  return cuda_gpu_main(argc, argv, suite);
}
