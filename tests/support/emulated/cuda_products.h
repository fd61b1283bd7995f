/* cuda_products.h - the suites of layers over
 * tests/support/emulated/cuda_fake.h and tests/support/emulated/cuda_cublas.h:
 * the GPU's engine of products as it is, its kernels emulated, all in the order
 * of streams that are threads.  Included in front of a suite. */
#ifndef TS_TESTS_CUDA_PRODUCTS_H
#define TS_TESTS_CUDA_PRODUCTS_H

#include <stdlib.h>

#include "tests/support/emulated/cuda_cublas.h"
#include "tests/support/harness.h"

ts_err cuda_products_half_rows(const ts_half_args *);
extern int cuda_products_masks; /* passes of ts_cuda_mask so far */

/* Kernels that the emulation stands for. */
static inline ts_err products_kernels(ts_kernels *k) {
  const ts_err err = ts_test_kernels(k);
  k->half_rows = cuda_products_half_rows;
  return err;
}
#define ts_test_kernels products_kernels

__attribute__((constructor)) static void choose(void) {
  setenv("TESSERA_BACKEND", "cuda", 1);
}

#endif
