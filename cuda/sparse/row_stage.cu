/* row_stage.cu - the kernel row_stage of GPUs. */
#include "cuda/sparse/lane_run.cuh"
#include "cuda/sparse/row_update_run.cuh"
#include "cuda/sparse/update.h"

ts_err ts_cuda_row_stage(const ts_row_stage_args *a) {
  ts_lane_run run;
  return ts_row_stage_on(run, a);
}
