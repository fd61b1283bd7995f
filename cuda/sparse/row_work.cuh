/* row_work.cuh - arguments of the kernels row_update and row_stage, which go by
 * value, and their scratch. */
#pragma once

#include "cuda/runtime/cuda_impl.h"
#include "cuda/sparse/row_optim.cuh"

enum {
  TS_ROW_BLOCK = 256, /* threads of a block */
  TS_ROW_PIECE = 256, /* entries that are summed one after the other */
  TS_ROW_TABLES = 32, /* tables that travel with one launch */
#if !defined(__CUDACC__) || CUDART_VERSION >= 12010
  TS_ROW_TABLES_MOST = 256 /* with a larger one (cuda/runtime/copies.cu) */
#else
  TS_ROW_TABLES_MOST = TS_ROW_TABLES
#endif
};

/* Settings of one table, of ts_row_update_args; what is host memory there is
 * copied with a launch's arguments, so it may be gone when kernels run. */
struct ts_row_table {
  ts_row_hyper hyper;
  int32_t row_dim;
  uint32_t first_quad;     /* first column / 4 */
  uint64_t rounding_key;   /* of Philox */
  int64_t base, first_row; /* in the group, and in the whole table */
};
template <int N> struct ts_row_tables { ts_row_table table[N]; };
static_assert(sizeof(ts_row_tables<TS_ROW_TABLES>) + 16 <= 4096, "parameters");
static_assert(sizeof(ts_row_tables<TS_ROW_TABLES_MOST>) + 16 <= 32764,
              "parameters");

/* A run of more than TS_ROW_PIECE entries: number RUN, with the pieces
 * [first, first + n). */
struct ts_row_long {
  uint32_t run, first, n;
};
struct ts_row_piece {
  uint32_t from, to; /* entries */
};

/* Numbers that are known on the device only. */
struct ts_row_counts {
  int64_t n_out; /* n_runs, for the caller */
  uint32_t n_runs, n_long, n_pieces;
};

/* Rows and their states. */
struct ts_row_place {
  void *weight;
  ts_dtype dtype;
  int32_t dim;
  float *state[TS_ROW_STATES_MAX];
  const ts_row_table *table; /* (n_tables) */
  int32_t n_tables;
  uint32_t step;
  const int64_t *row_id; /* (rows) of dynamic tables, or NULL */
  float *score;          /* (rows) or NULL */
  /* Places from first_line on lie shift elements (bytes: weights in few bits)
   * further: of weights, states.  Elsewhere no place is as large. */
  uint32_t first_line;
  int64_t shift[1 + TS_ROW_STATES_MAX];
  bool wide_loads; /* quads lie at multiples of their size */
  bool caps;       /* some table has max_norm */
};

/* An update; names as in ts_row_update_args. */
struct ts_row_work {
  ts_row_place rows;
  const uint32_t *keys, *place, *order, *bag_of;
  const float *grad, *weights, *bag_scale;
  const int64_t *grad_at;
  bool scaled; /* entries have factors */
  int64_t n;
  float *sum_out;
  uint32_t *key_out;
  uint32_t *start; /* (n_runs) first entries */
  ts_row_counts *counts;
  ts_row_long *longs;
  ts_row_piece *pieces;
  float *partial; /* (n_pieces, dim) sums */
  float *aside;   /* (groups, dim) sums of rows too wide for registers */
};

/* A stage; names as in ts_row_stage_args. */
struct ts_row_stage {
  ts_row_place rows;
  const uint32_t *keys, *place;
  const float *sums;
  float *stats;
  int64_t n;
  int round;
};

/* Whether ts_row_launch_plain (row_plain.cu) sums the pieces and updates the
 * runs of one piece: rows of at most 128 columns in f32, all in one array,
 * quads on borders of 16 bytes, entries without factors, no max_norm, no
 * score. */
bool ts_row_is_plain(const ts_row_work &w);
ts_err ts_row_launch_plain(const char *kind, const ts_row_work &w);

/* Settings of all tables to TABLE (device), in arguments of launches. */
ts_err ts_row_send_tables(const ts_row_update_args *a, ts_row_table *table);
ts_row_place ts_row_place_of(const ts_row_update_args *a,
                             const ts_row_table *table);

/* Distinct rows: KEYS[j], at PLACE[j] or where its number says, for each j of
 * (n), or of (n_runs) START, which is the device's to know. */
struct ts_row_entries {
  const uint32_t *keys, *place, *start, *n_runs;
  int64_t n;
};

/* Means of the rows up to date, where tables have some (row_average.cu). */
ts_err ts_row_average(const ts_row_update_args *a, const ts_row_place &rows,
                      const ts_row_entries &of);

/* As many blocks as N pieces of work need, or run at once: kernels go on with
 * a stride. */
template <class K, class W>
static ts_err ts_row_launch(K kernel, int64_t n, int64_t per_block,
                            const W &work) {
  const int64_t most = ts_cuda_blocks_of(kernel, TS_ROW_BLOCK);
  return TS_CUDA_LAUNCH(kernel, {ts_grid(n, per_block, most), TS_ROW_BLOCK},
                        work);
}
