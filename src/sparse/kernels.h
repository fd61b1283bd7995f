/* kernels.h - the kernels of tables: their entries in the table of kernels
 * (kernel_table.h), and arguments that no other header has. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/dtype.h"

/* Pooled lookup of one TBE group with F features; feature f has the bags
 * [bag_start[f], bag_start[f + 1]), and bag j the ids
 * [offsets[j], offsets[j + 1]):
 *   out[at[j] + d] = m * sum over i in bag j of
 *                        w_i * W[row_base[f] + rows[i]][d]
 * with w_i = weights ? weights[i] : 1 and m = mean ? 1 / bag length : 1.
 * Empty bags give zeros.  Sums in f32, in the order of the bag. */
typedef struct ts_lookup_args {
  float *out;
  const int64_t *at;        /* (bags) floats */
  const void *weight;       /* (rows of the group, dim) dtype, row-major */
  ts_dtype dtype;           /* f32, bf16, f16 */
  int32_t dim;              /* any > 0; multiples of 16 are fast */
  const int64_t *row_base;  /* (F) first row of its table, host memory */
  const int64_t *bag_start; /* (F + 1) from 0, host memory */
  const int64_t *offsets;   /* (bags + 1) */
  const int32_t *rows;      /* (N) local row within the table's shard */
  const float *weights;     /* (N) or NULL */
  bool mean;
  int32_t n_features; /* F */
  /* On devices with discrete memory, or NULL: rows from FIRST_LINE on are here,
   * in (n, dim), not in weight.  On the host all rows are in weight. */
  const void *lines;
  uint32_t first_line;
} ts_lookup_args;

/* Gradient by each id's weight, for the pooled lookup BAGS (its out and
 * weights are not read; at says where a bag's gradient starts in grad):
 *   out[i] = m * sum over d of grad[at[j] + d] * W[row_base[f] + rows[i]][d]
 * for id i of bag j, m as above.  A row's sum has 16 fixed parts (d modulo
 * 16), so every version gives the same bits. */
typedef struct ts_weight_grad_args {
  const ts_lookup_args *bags;
  float *out; /* (N) */
  const float *grad;
} ts_weight_grad_args;

/* Stable radix sort of keys with a 32-bit payload, on the low N_BITS bits
 * of the key; scratch arrays of the same length.  The result is in keys and
 * values.  Where the caller knows that the keys lie in segments, all keys of
 * one below all keys of the next, it may say so: then every segment is sorted
 * alone, on SEGMENT_BITS of key - segment_base.  The result is the same.
 * RUNS, which a GPU alone heeds: how many runs of equal keys there are, and
 * where they begin. */
typedef struct ts_sort_args {
  uint32_t *keys, *keys_scratch;     /* (n) */
  uint32_t *values, *values_scratch; /* (n) */
  uint32_t *runs;                    /* (1 + n) or NULL */
  int64_t n;
  int n_bits;
  int32_t n_segments;          /* 0: not known */
  const int64_t *segment;      /* (n_segments + 1) from 0 to n */
  const int64_t *segment_base; /* (n_segments) */
  int segment_bits;
  void *work; /* ts_sort_work_bytes of scratch; NULL: allocated */
} ts_sort_args;

struct ts_row_update_args; /* sparse/row_optim.h */
struct ts_row_stage_args;
struct ts_average_rows_args;
struct ts_cache_args; /* sparse/cache.h */
struct ts_cache_rows_args;
struct ts_entries_args; /* sparse/entries.h */
struct ts_append_args;
struct ts_find_args;
struct ts_add_rows_args;
struct ts_mark_rows_args;
struct ts_take_rows_args;
struct ts_index_find_args; /* sparse/mirror.h */
struct ts_put_rows_args;
struct ts_meet_rows_args;

/* add (to, from, n): to[i] += from[i]; both in device memory. */
#define TS_SPARSE_KERNELS(X)                                                   \
  X(lookup, (const ts_lookup_args *))                                          \
  X(weight_grad, (const ts_weight_grad_args *))                                \
  X(sort, (const ts_sort_args *))                                              \
  X(row_update, (const struct ts_row_update_args *))                           \
  X(row_stage, (const struct ts_row_stage_args *))                             \
  X(average_rows, (const struct ts_average_rows_args *))                       \
  X(cache_rows, (const struct ts_cache_rows_args *))                           \
  X(cache_hold, (const struct ts_cache_args *))                                \
  X(cache_release, (const struct ts_cache_args *))                             \
  X(cache_refresh, (const struct ts_cache_args *))                             \
  X(cache_locate, (const struct ts_cache_args *))                              \
  X(cache_flush, (const struct ts_cache_args *))                               \
  X(cache_reload, (const struct ts_cache_args *))                              \
  X(entries, (const struct ts_entries_args *))                                 \
  X(append, (const struct ts_append_args *))                                   \
  X(find, (const struct ts_find_args *))                                       \
  X(add, (float *, const float *, int64_t))                                    \
  X(add_rows, (const struct ts_add_rows_args *))                               \
  X(mark_rows, (const struct ts_mark_rows_args *))                             \
  X(take_rows, (const struct ts_take_rows_args *))                             \
  X(index_find, (const struct ts_index_find_args *))                           \
  X(put_rows, (const struct ts_put_rows_args *))                               \
  X(meet_rows, (const struct ts_meet_rows_args *))
