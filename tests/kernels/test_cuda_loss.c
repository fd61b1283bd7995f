/* test_cuda_loss.c - the GPU's loss and metrics, run on the CPU.
 * ranks: 1
 * seconds: 300 */
#include "tests/kernels/cuda_loss.h"
#include "tests/support/harness.h"

static Suite *suite(void) {
  return cuda_loss_suite("cuda_loss", &loss_emulated);
}
TS_TEST_MAIN(suite)
