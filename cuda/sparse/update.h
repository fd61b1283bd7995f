/* update.h - the kernels sort, row_update and row_stage of GPUs.
 *
 * Arguments are those of runtime/kernels.h and sparse/row_optim.h.  What they
 * point to is device memory, but for what is copied in the call and may go
 * after it: the argument structs, of an update optim, hyper, row_base,
 * row_dim, table_id, first_row and first_col (host memory).  n_out may be
 * device or page-locked memory; with pageable host memory the call waits for
 * the lane.  work, segment and segment_base are not read.
 *
 * All three enqueue on the current lane and return.  The results are those of
 * the host's kernels, bit for bit. */
#ifndef TS_CUDA_UPDATE_H
#define TS_CUDA_UPDATE_H

#ifdef __cplusplus
extern "C" {
#endif
#include "runtime/kernels.h"
#include "sparse/row_optim.h"

ts_err ts_cuda_sort(const ts_sort_args *);
ts_err ts_cuda_row_update(const ts_row_update_args *);
ts_err ts_cuda_row_stage(const ts_row_stage_args *);
#ifdef __cplusplus
}
#endif

#endif
