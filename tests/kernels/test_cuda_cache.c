/* test_cuda_cache.c - the GPU's cache, run on the CPU.
 * ranks: 1
 * seconds: 600 */
#include "tests/kernels/cuda_cache.h"
#include "tests/support/harness.h"

static Suite *suite(void) {
  static cache_target target;
  target = cache_emulated();
  return cuda_cache_suite("cuda_cache", &target);
}
TS_TEST_MAIN(suite)
