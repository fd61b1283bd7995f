/* layers.cu - the kernels of a graph's layers (model/kernels.h). */
#include "cuda/runtime/cuda_impl.h"

#define STUB(name, args) \
  ts_err ts_cuda_##name(const args *a) { \
    (void)a; \
    return ts_fail(TS_ERR_INTERNAL, #name ": not on a GPU yet"); \
  }
STUB(contract, ts_contract_args)
STUB(map, ts_map_args)
STUB(act_forward, ts_act_args)
STUB(act_backward, ts_act_args)
STUB(norm_forward, ts_norm_args)
STUB(norm_backward, ts_norm_args)
STUB(column_sums, ts_column_sums_args)
STUB(column_apply, ts_column_apply_args)
STUB(batch_norm_forward, ts_batch_norm_args)
STUB(batch_norm_backward, ts_batch_norm_args)
STUB(dropout, ts_dropout_args)
STUB(max_forward, ts_max_args)
STUB(max_backward, ts_max_args)
