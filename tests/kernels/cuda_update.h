/* cuda_update.h - the tests of the GPU's row_update, row_stage and sort
 * (cuda/sparse/update.h) against the host's reference, bit for bit; where they
 * run is a target's: the CPU (tests/kernels/update_emulated.cc) or a GPU. */
#ifndef TS_TESTS_CUDA_UPDATE_H
#define TS_TESTS_CUDA_UPDATE_H

#ifdef __cplusplus
extern "C" {
#endif
#include "runtime/kernels.h"
#include "sparse/row_optim.h"

typedef struct update_target {
  /* Run to the end before they return; sort may be NULL. */
  ts_err (*row_update)(const ts_row_update_args *);
  ts_err (*row_stage)(const ts_row_stage_args *);
  ts_err (*sort)(const ts_sort_args *);
  /* A copy of BYTES where kernels can see it; what it holds now; its end. */
  void *(*send)(const void *, size_t bytes);
  void (*fetch)(void *to, const void *sent, size_t bytes);
  void (*drop)(void *sent);
  void (*set_blocks)(int most);       /* of a grid; NULL: can't be set */
  void (*start)(void), (*stop)(void); /* around all tests, or NULL */
} update_target;

/* Kernels on the CPU: `sort` is NULL, as it is all CUB's. */
extern const update_target update_emulated;
#ifdef __cplusplus
}
#endif

#ifndef __cplusplus
#include <check.h>
Suite *cuda_update_suite(const char *name, const update_target *);
#endif

#endif
