/* test_cuda_dense.c - the GPU's kernels of the dot interaction, cross layers,
 * factorisation machines and rows side by side, run on the CPU.
 * ranks: 1
 * seconds: 600 */
#include "tests/kernels/cuda_dense.h"

static Suite *suite(void) {
  return cuda_dense_suite("cuda_dense", &dense_emulated);
}
TS_TEST_MAIN(suite)
