/* update_emulated.cc - the kernels of row updates on the CPU. */
#include "tests/support/emulated/cuda_emulate_run.h"
#include "cuda/sparse/row_update_run.cuh"
#include "tests/kernels/cuda_update.h"

static ts_err row_update(const ts_row_update_args *a) {
  emulated_run run;
  return ts_row_update_on(run, a);
}

static ts_err row_stage(const ts_row_stage_args *a) {
  emulated_run run;
  return ts_row_stage_on(run, a);
}

extern "C" {
const update_target update_emulated = {row_update,
                                       row_stage,
                                       nullptr,
                                       emulated_send,
                                       emulated_fetch,
                                       free,
                                       emulated_run::set_blocks,
                                       nullptr,
                                       nullptr};
}
