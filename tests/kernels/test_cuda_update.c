/* test_cuda_update.c - the GPU's kernels of row updates, run on the CPU.
 * ranks: 1
 * seconds: 600 */
#include "tests/kernels/cuda_update.h"
#include "tests/support/harness.h"

static Suite *suite(void) {
  return cuda_update_suite("cuda_update", &update_emulated);
}
TS_TEST_MAIN(suite)
