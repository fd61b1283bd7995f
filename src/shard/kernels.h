/* kernels.h - the kernels between ranks and lookups: their entries in the
 * table of kernels (kernel_table.h). */
#pragma once

#include <stdint.h>

struct ts_bags_args; /* shard/pack.h */
struct ts_distinct_args;
struct ts_pack_args;
struct ts_unpack_args; /* shard/unpack.h */
struct ts_bag_means_args;
struct ts_row_args;   /* runtime/row_pieces.h */
struct ts_scale_args; /* shard/view_kernels.h */
struct ts_code_args;
struct ts_position_args;

/* narrow (dst, src, n): f64 to f32. */
#define TS_SHARD_KERNELS(X)                                                    \
  X(bags_check, (const struct ts_bags_args *))                                 \
  X(bags_offsets, (const struct ts_bags_args *))                               \
  X(bags_distinct, (const struct ts_distinct_args *))                          \
  X(pack_measure, (const struct ts_pack_args *))                               \
  X(pack_write, (const struct ts_pack_args *))                                 \
  X(unpack, (const struct ts_unpack_args *))                                   \
  X(bag_means, (const struct ts_bag_means_args *))                             \
  X(copy_rows, (const struct ts_row_args *))                                   \
  X(sum_rows, (const struct ts_row_args *))                                    \
  X(scale_rows, (const struct ts_scale_args *))                                \
  X(code_rows, (const struct ts_code_args *))                                  \
  X(weigh_positions, (const struct ts_position_args *))                        \
  X(sum_positions, (const struct ts_position_args *))                          \
  X(narrow, (float *, const double *, int64_t))
