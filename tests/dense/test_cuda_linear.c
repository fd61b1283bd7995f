/* test_cuda_linear.c - single layers on the GPU's engine, without a GPU. */
#include <stdlib.h>

#include "tests/dense/linear_probe.c"
#include "tests/dense/test_linear.c"

__attribute__((constructor)) static void choose(void) {
  setenv("TESSERA_BACKEND", "emulated", 1);
}
