/* test_cuda_pack.c - the GPU's kernels of input dist's sending side, run on
 * the CPU.
 * ranks: 1
 * seconds: 600 */
#include "cuda_pack.h"
#include "harness.h"

static Suite *suite(void) {
  return cuda_pack_suite("cuda_pack", &pack_emulated);
}
TS_TEST_MAIN(suite)
