/* cublas_impl.h - a product of the fake cuBLASLt: what was asked for
 * (cublas.c) and how it is computed (cublas_product.c). */
#pragma once

#include <cublasLt.h>
#include <stdbool.h>

#include "tests/support/emulated/cublas.h"

typedef struct ts_fake_desc {
  cublasComputeType_t compute;
  cudaDataType_t scale;
  cublasOperation_t ta, tb;
  uint32_t epilogue;
  void *bias, *aux;
  int64_t aux_ld;
} ts_fake_desc;

typedef struct ts_fake_layout {
  cudaDataType_t type;
  uint64_t rows, cols;
  int64_t ld;
} ts_fake_layout;

/* One product. */
typedef struct ts_fake_matmul {
  ts_fake_desc op;
  ts_fake_layout a, b, d;
  const void *A, *B;
  void *D;
} ts_fake_matmul;

/* The parts of epilogue E. */
static inline bool adds_bias(uint32_t e) {
  return e & CUBLASLT_EPILOGUE_BIAS;
}

static inline bool has_mask(uint32_t e) {
  return e & 128;
}

/* DRELU_BGRAD: of D's rows; BGRADB: of B. */
static inline bool sums_rows(uint32_t e) {
  return e == CUBLASLT_EPILOGUE_DRELU_BGRAD;
}

/* MATMUL is a ts_fake_matmul. */
void ts_cublas_multiply(void *matmul);
