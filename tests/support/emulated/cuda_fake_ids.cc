/* cuda_fake_ids.cc - kernels of ids that arrive, and of embeddings. */
#include "tests/support/emulated/cuda_fake_emulated.h"

#include "cuda/sparse/entries_launch.cuh"
#include "cuda/sparse/lookup_launch.cuh"
#include "cuda/shard/unpack_launch.cuh"
#include "cuda/shard/views_launch.cuh"

#define K TS_FAKE_KERNEL
#define LOOKUP(row, vector, lanes)                                             \
  K(ts_lookup_kernel<row, vector, lanes, false>),                              \
      K(ts_lookup_kernel<row, vector, lanes, true>)
#define LOOKUP_HALF(row)                                                       \
  LOOKUP(row, 1, 4), LOOKUP(row, 1, 32), LOOKUP(row, 4, 8),                    \
      LOOKUP(row, 4, 32), LOOKUP(row, 8, 4), LOOKUP(row, 8, 8),                \
      LOOKUP(row, 8, 16), LOOKUP(row, 8, 32),                                  \
      K(ts_weight_grad_kernel<row, 1>), K(ts_weight_grad_kernel<row, 4>),      \
      K(ts_weight_grad_kernel<row, 8>)

const ts_fake_body ts_fake_ids[] = {K(ts_bag_means_kernel),
                                    K(ts_number_kernel),
                                    K(ts_unpack_kernel),
                                    K(ts_add_kernel),
                                    K(ts_add_rows_kernel),
                                    K(ts_append_kernel),
                                    K(ts_entries_kernel),
                                    K(ts_find_kernel),
                                    K(ts_put_kernel<4000>),
                                    K(ts_put_kernel<32000>),
                                    K(ts_copy_rows_kernel),
                                    K(ts_sum_rows_kernel),
                                    K(ts_scale_rows_kernel),
                                    K(ts_narrow_kernel),
                                    K(ts_sum_positions_kernel),
                                    K(ts_weigh_positions_kernel),
                                    LOOKUP(ts_row_f32, 1, 4),
                                    LOOKUP(ts_row_f32, 1, 32),
                                    LOOKUP(ts_row_f32, 4, 4),
                                    LOOKUP(ts_row_f32, 4, 8),
                                    LOOKUP(ts_row_f32, 4, 16),
                                    LOOKUP(ts_row_f32, 4, 32),
                                    K(ts_weight_grad_kernel<ts_row_f32, 1>),
                                    K(ts_weight_grad_kernel<ts_row_f32, 4>),
                                    LOOKUP_HALF(ts_row_f16),
                                    LOOKUP_HALF(ts_row_bf16),
                                    {nullptr, nullptr}};
