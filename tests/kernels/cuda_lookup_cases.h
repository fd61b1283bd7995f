/* cuda_lookup_cases.h - the CUDA lookup and its gradient by the weights
 * against the plain C reference, bit for bit; on the CPU (test_cuda_lookup.c)
 * and on a GPU (test_cuda_lookup_gpu.c). */
#ifndef TS_TESTS_CUDA_LOOKUP_CASES_H
#define TS_TESTS_CUDA_LOOKUP_CASES_H

#include "runtime/kernels.h"
#include "tests/support/sparse_util.h"

/* One launch on arguments in host memory: fills the N_OUT floats of A's
 * output, or of G's where G (whose bags are A) is not NULL.  N_ROWS: of the
 * table; N_LINES: rows in A's lines; N_GRAD: floats. */
typedef struct cuda_lookup_sizes {
  int64_t n_out, n_rows, n_lines, n_grad;
} cuda_lookup_sizes;
typedef ts_err cuda_lookup_run(const ts_lookup_args *a,
                               const ts_weight_grad_args *g,
                               const cuda_lookup_sizes *);

/* The suite, on RUN. */
Suite *cuda_lookup_suite(const char *name, cuda_lookup_run *run);

#endif
