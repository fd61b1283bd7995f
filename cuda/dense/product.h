/* product.h - one matrix product by cuBLASLt, described once and run often.
 *
 * The library's matrices are column-major: a row-major (rows, cols) array is
 * its (cols, rows) matrix, leading dimension the stride of rows.  Which
 * algorithm a product has is chosen for its sizes, types, what is fused with
 * it and how its arrays are aligned, and kept (product_choices.h). */
#pragma once

#include <cublasLt.h>

#include "cuda/runtime/cuda_impl.h"
extern "C" {
#include "cuda/dense/product_choices.h"
#include "runtime/arrays.h"
}

/* The library on one lane, shared by the layers that run there. */
struct ts_blas {
  cublasLtHandle_t handle;
  ts_arrays arrays;
  void *workspace; /* (TS_BLAS_WORKSPACE) */
  ts_lane *lane;
  int users;
  ts_blas *next;
};

/* NVIDIA recommends as much for sm_90; smaller GPUs need less. */
enum { TS_BLAS_WORKSPACE = 32 << 20 };

ts_err ts_blas_take(ts_blas **, ts_lane *);
void ts_blas_give(ts_blas *);
const char *ts_blas_version(void); /* "cuBLASLt 130000" */
/* "cuBLASLt 130000, NVIDIA H200": whose algorithms these are. */
const char *ts_blas_maker(void);

#define TS_BLAS(call) ts_blas_check((call), #call)
ts_err ts_blas_check(cublasStatus_t, const char *call);

/* D (m, n) = op(A) op(B), sums over k in f32. */
struct ts_product_spec {
  int64_t m, n, k;
  bool ta, tb; /* A is stored (k, m), B (n, k) */
  int64_t lda, ldb, ldd;
  cudaDataType_t type, d_type; /* of A and B, of D and of bias */
  cublasComputeType_t compute;
  cublasLtEpilogue_t epilogue;
  int64_t aux_ld; /* bits between columns of ReLU's mask, 128 n */
};

/* All device memory.  bias: what is added to columns, or the gradient that is
 * written; aux: ReLU's mask, written or read; NULL where the epilogue has
 * none. */
struct ts_product_at {
  const void *a, *b;
  void *d, *bias, *aux;
};

struct ts_product {
  ts_product_spec spec;
  cublasLtMatmulDesc_t desc; /* NULL: there is no product */
  cublasLtMatrixLayout_t a, b, d;
  cublasLtMatmulAlgo_t algo;
  int64_t serial;   /* tells products at the same place apart */
  bool fits;        /* the library has an algorithm */
  bool refused;     /* it has, but would not run it */
  uint32_t aligned; /* for arrays so aligned; 0: not asked yet */
  uint64_t version; /* of the choices then */
  ts_product_at at; /* of the last run */
};

ts_err ts_product_init(ts_product *, const ts_product_spec *);
void ts_product_reset(ts_product *);
/* *FITS: the library can do it on arrays that lie there.  Chooses. */
ts_err ts_product_prepare(ts_product *, ts_blas *, ts_product_at, bool *fits);
/* The library would not run it after all: it does not fit from now on. */
ts_err ts_product_give_up(ts_product *);
/* Where it fits, on the lane's stream.  An error sets p->refused where that was
 * the library's word. */
ts_err ts_product_run(ts_product *, ts_blas *, ts_product_at);
