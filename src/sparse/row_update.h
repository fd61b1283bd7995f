/* row_update.h - how the row update is shared by threads; private.
 * All of it is Local. */
#pragma once

#include "sparse/row_optim.h"

struct ts_update_part;

/* The versions of the parallel pieces of one instruction set. */
typedef struct ts_update_ops {
  int isa;
  void (*part)(const ts_row_update_args *, struct ts_update_part *);
  /* sums (n_pieces, dim) of run [from, to) */
  void (*pieces)(const ts_row_update_args *, float *sums, int64_t from,
                 int64_t to);
  void (*end)(const ts_row_update_args *, int64_t from, int64_t number,
              float *sums, int64_t n_pieces, float *wide);
} ts_update_ops;

/* Cuts the entries over the OpenMP threads of the caller and runs them. */
ts_err ts_row_update_run(const ts_row_update_args *, const ts_update_ops *);
