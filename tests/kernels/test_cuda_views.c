/* test_cuda_views.c - the GPU's kernels of views, wires and positions, run on
 * the CPU.
 * ranks: 1
 * seconds: 600 */
#include "tests/kernels/cuda_views.h"
#include "tests/support/harness.h"

static Suite *suite(void) {
  return cuda_views_suite("cuda_views", &views_emulated);
}
TS_TEST_MAIN(suite)
