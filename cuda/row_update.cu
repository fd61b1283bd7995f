/* row_update.cu - the kernel row_update of GPUs, and this family's entries in
 * the table of kernels.  ts_row_update_args.work is not used: scratch comes
 * from the lane's pool. */
#include "cuda/lane_run.cuh"
#include "cuda/row_update_run.cuh"
#include "cuda/update.h"

ts_err ts_cuda_row_update(const ts_row_update_args *a) {
  ts_lane_run run;
  return ts_row_update_on(run, a);
}

void ts_cuda_kernels_update(ts_kernels *k) {
  k->sort = ts_cuda_sort;
  k->row_update = ts_cuda_row_update;
  k->row_stage = ts_cuda_row_stage;
}
