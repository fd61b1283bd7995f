/* cuda_update_case.h - a case of a row update (cuda_update.c), and the same
 * case where the target sees it. */
#ifndef TS_TESTS_CUDA_UPDATE_CASE_H
#define TS_TESTS_CUDA_UPDATE_CASE_H

#include "tests/kernels/cuda_update.h"
#include "tests/support/sparse_util.h"

/* Four tables, of which one has no rows. */
enum { TABLES = 4, ROWS = 90, PLACES = 120, RUNS_MAX = 32, BAGS = 300 };

typedef struct spec {
  const char *kind;
  ts_dtype dtype;
  ts_wd_mode decay;
  int32_t dim;
  const int *lengths; /* (n_runs) */
  int n_runs;
  bool weighted, mean, placed, keep;
  int shift; /* floats that gradients are moved by: off multiples of 16 */
} spec;

/* What a case owns; the arrays that a kernel reads or writes, with the bytes
 * that belong to them. */
enum { ARRAYS_MAX = 16 };
typedef struct array {
  void *p;
  size_t bytes;
} array;
typedef struct update_case {
  ts_row_update_args a;
  ts_row_hyper hyper[TABLES];
  int32_t row_dim[TABLES], id[TABLES], first_col[TABLES];
  int64_t first_row[TABLES], n_out;
  array all[ARRAYS_MAX];
  int n_arrays;
} update_case;

extern const update_target *update_tested;

void update_make(update_case *, const spec *);
/* N elements of SIZE that are the case's. */
void *update_add(update_case *, int64_t n, size_t size);
void update_drop(update_case *);

/* Copies of all arrays for the target, and its arguments. */
ts_row_update_args update_send(const update_case *, void **copies);
/* The target's copy of what starts at P. */
void *update_sent(const update_case *, void *const *copies, const void *p);

void update_same(const void *x, const void *y, size_t bytes, const char *what,
                 const spec *);
/* The case has been through the reference: the target has left the same. */
void update_compare(const update_case *, void **copies, const spec *);

#endif
