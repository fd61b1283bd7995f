/* update.h - a case of row_update (update.c): tables, rows, runs of entries. */
#pragma once

#include "sparse/row_optim.h"
#include "tests/support/contract.h"

/* Four tables, of which one has no rows. */
enum { TABLES = 4, ROWS = 90, PLACES = 120, RUNS_MAX = 32, BAGS = 300 };

/* Every row optimizer. */
enum { UPDATE_KINDS = 8 };
extern const char *const update_kinds[UPDATE_KINDS];

typedef struct spec {
  const char *kind;
  ts_dtype dtype;
  ts_wd_mode decay;
  int32_t dim;
  const int *lengths; /* (n_runs) */
  int n_runs;
  bool weighted, mean, placed, keep;
  bool exact;  /* of numbers whose sums in float lose nothing */
  bool caps;   /* tables have max_norm, but for one */
  bool means;  /* rows have running means */
  bool scores; /* norms of sums are added up */
  int shift;   /* floats that gradients are moved by: off multiples of 16 */
} spec;

typedef struct update_case {
  ts_row_update_args a;
  ts_row_optim own; /* a.optim */
  ts_row_hyper hyper[TABLES];
  int32_t row_dim[TABLES], id[TABLES], first_col[TABLES];
  int64_t first_row[TABLES];
  /* Rows from PLACES / 2 on, where memory is discrete; NULL: in one place. */
  void *lines;
  float *line_state[TS_ROW_STATES_MAX];
} update_case;

void update_make(update_case *, const spec *);
/* Its arguments in this run's memory. */
ts_row_update_args update_args(const update_case *);
/* An optimizer with the states of MEANS. */
ts_row_optim update_optim(const char *kind, bool means);
ts_err update_run(const ts_kernels *, const void *update_case);
