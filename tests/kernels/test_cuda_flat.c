/* test_cuda_flat.c - the GPU's kernels over flat arrays and its dense
 * optimizers, run on the CPU.
 * ranks: 1
 * seconds: 600 */
#include "tests/kernels/cuda_flat.h"
#include "tests/support/harness.h"

static Suite *suite(void) {
  return cuda_flat_suite("cuda_flat", &flat_emulated);
}
TS_TEST_MAIN(suite)
