/* test_cuda_pack.c - the GPU's kernels of input dist's sending side, run on
 * the CPU.
 * ranks: 1
 * seconds: 600 */
#include "tests/kernels/cuda_pack.h"
#include "tests/support/harness.h"

static Suite *suite(void) {
  return cuda_pack_suite("cuda_pack", &pack_emulated);
}
TS_TEST_MAIN(suite)
