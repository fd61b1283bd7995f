/* cublas.h - cuBLASLt without a GPU, over
 * tests/support/emulated/runtime.h: the calls that cuda/dense/product.cu
 * makes, as strict as NVIDIA documents them, with products in double in the
 * order of the stream. */
#pragma once

#include <stdint.h>

typedef struct ts_cublas_fake {
  int refused;       /* an epilogue that it has no algorithm for; 0: none */
  int unrun;         /* one that it proposes, but will not run; 0: none */
  int parts_most;    /* of k; 0: it cuts no product */
  int asked;         /* proposals made */
  int ran;           /* products, and of those with */
  int cut;           /* k in parts */
  int masks, dmasks; /* ReLU's mask written, read */
  int bias_grads;    /* by a product for weights */
  int taken;         /* algorithms that were not proposed in this life */
  int descriptors;   /* of all kinds, that exist */
  int stale;         /* grows: algorithms of earlier lives are refused */
} ts_cublas_fake;
extern ts_cublas_fake ts_cublas;
