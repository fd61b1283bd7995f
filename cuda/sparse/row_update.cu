/* row_update.cu - the kernel row_update of GPUs, and this family's entries in
 * the table of kernels.  ts_row_update_args.work is not used: scratch comes
 * from the lane's pool. */
#include "cuda/sparse/lane_run.cuh"
#include "cuda/sparse/row_update_run.cuh"
#include "cuda/sparse/update.h"

/* CUDA does not know pageable memory. */
static bool is_pageable(const void *p) {
  cudaPointerAttributes at;
  if (cudaPointerGetAttributes(&at, p) == cudaSuccess)
    return at.type == cudaMemoryTypeUnregistered;
  (void)cudaGetLastError();
  return true;
}

/* A copy to pageable memory may or may not wait, says CUDA: where the host
 * reads n_out next, this does. */
ts_err ts_cuda_row_update(const ts_row_update_args *a) {
  ts_err err = TS_OK;
  ts_lane_run run;
  TS_TRY(ts_row_update_on(run, a));
  if (a->sum_out && is_pageable(a->n_out)) TS_TRY(ts_cuda_settle_now());
done:
  return err;
}

void ts_cuda_kernels_update(ts_kernels *k) {
  k->sort = ts_cuda_sort;
  k->row_update = ts_cuda_row_update;
  k->row_stage = ts_cuda_row_stage;
}
