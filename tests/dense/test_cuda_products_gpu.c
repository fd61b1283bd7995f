/* test_cuda_products_gpu.c - stacks of layers on a GPU, by the real library;
 * without one it is skipped. */
#include <stdlib.h>

__attribute__((constructor)) static void choose(void) {
  setenv("TESSERA_BACKEND", "cuda", 1);
}

#include "tests/dense/test_mlp.c"
