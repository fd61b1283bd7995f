/* cuda_entries_cases.h - the CUDA kernels of sparse/entries.h against the
 * host's, bit for bit; on the CPU (test_cuda_entries.c) and on a GPU
 * (test_cuda_entries_gpu.c). */
#ifndef TS_TESTS_CUDA_ENTRIES_CASES_H
#define TS_TESTS_CUDA_ENTRIES_CASES_H

#include "runtime/kernels.h"
#include "tests/support/sparse_util.h"

/* The suite, on KERNELS over DEVICE, which are there when it runs.  N_GRIDS:
 * how often each test runs; SET_GRID, unless NULL, says which time it is. */
typedef struct cuda_entries_target {
  ts_device **device;
  const ts_kernels *kernels;
  int n_grids;
  void (*set_grid)(int i);
} cuda_entries_target;

Suite *cuda_entries_suite(const char *name, const cuda_entries_target *);

#endif
