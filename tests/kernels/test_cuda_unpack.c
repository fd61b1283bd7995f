/* test_cuda_unpack.c - the GPU's kernels of input dist's receiving side, run on
 * the CPU.
 * ranks: 1
 * seconds: 300 */
#include "tests/kernels/cuda_unpack.h"
#include "tests/support/harness.h"

static Suite *suite(void) {
  return cuda_unpack_suite("cuda_unpack", &unpack_emulated);
}
TS_TEST_MAIN(suite)
