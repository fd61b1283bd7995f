/* cuda_fake_rows.cc - kernels that change rows of tables. */
#include "tests/support/emulated/cuda_fake_emulated.h"

#include "cuda/sparse/cache_run.cuh"
#include "cuda/sparse/row_update_run.cuh"

#define K TS_FAKE_KERNEL
#define UPDATE(optim)                                                          \
  K(ts_row_end_long<optim>), K(ts_row_tasks<optim, 8, true>),                  \
      K(ts_row_tasks<optim, 16, true>), K(ts_row_tasks<optim, 32, true>),      \
      K(ts_row_tasks<optim, 32, false>)
#define STAGES(optim)                                                          \
  UPDATE(optim), K(ts_row_stages<optim, 8>), K(ts_row_stages<optim, 32>)

const ts_fake_body ts_fake_rows[] = {STAGES(ts_optim_sgd),
                                     STAGES(ts_optim_adagrad),
                                     STAGES(ts_optim_rowwise_adagrad),
                                     STAGES(ts_optim_adam),
                                     STAGES(ts_optim_partial_adam),
                                     STAGES(ts_optim_lamb),
                                     STAGES(ts_optim_partial_lamb),
                                     STAGES(ts_optim_lars),
                                     UPDATE(ts_optim_keep),
                                     K(ts_row_find_long),
                                     K(ts_row_put_tables<32>),
                                     K(ts_row_put_tables<256>),
                                     K(ts_cache_all_kernel),
                                     K(ts_cache_clear_kernel),
                                     K(ts_cache_hold_kernel),
                                     K(ts_cache_keys_kernel),
                                     K(ts_cache_locate_kernel),
                                     K(ts_cache_move_kernel),
                                     K(ts_cache_refresh_kernel),
                                     K(ts_cache_release_kernel),
                                     K(ts_cache_rows_kernel),
                                     K(ts_cache_slots_kernel),
                                     {nullptr, nullptr}};

size_t ts_fake_row_table_bytes(void) {
  return sizeof(ts_row_table);
}
