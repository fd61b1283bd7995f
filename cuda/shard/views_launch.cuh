/* views_launch.cuh - from the arguments of shard/view_kernels.h to launches;
 * they travel by value, so callers may go on at once.  cuda/shard/views.cu
 * launches;
 * tests define TS_CUDA_LAUNCH and run the same on the CPU.
 *
 * Grids are as wide as their largest piece asks for, but at most MOST blocks:
 * kernels go on with a stride. */
#ifndef TS_CUDA_VIEWS_LAUNCH_CUH
#define TS_CUDA_VIEWS_LAUNCH_CUH

#include "cuda/shard/code_rows.cuh"
#include "cuda/shard/positions.cuh"
#include "cuda/runtime/put.cuh"

/* Parameters of a launch. */
static_assert(sizeof(ts_row_args) <= 4096, "too many pieces");
static_assert(sizeof(ts_scale_args) <= 4096, "too many pieces");
static_assert(sizeof(ts_code_args) <= 4096, "too many pieces");
static_assert(sizeof(ts_position_sums) <= 4096, "too many slots");

/* Blocks of a piece with N rows of N_VECTORS, ROWS at once for a lane. */
static inline int64_t ts_view_blocks(int64_t n, int64_t n_vectors, int rows) {
  const int64_t per_block = TS_VIEW_THREADS >> ts_view_shift(n_vectors);
  return ts_ceil_div(n, per_block * rows);
}

/* Widens a grid of *BLOCKS. */
static inline void ts_view_widen(int64_t *blocks, int64_t n) {
  *blocks = n > *blocks ? n : *blocks;
}

static inline dim3 ts_view_grid(int64_t blocks, int32_t n_pieces,
                                int64_t most) {
  return dim3(ts_grid(blocks, 1, most), (unsigned)n_pieces);
}

static inline int64_t ts_row_vectors(const ts_row_piece *p) {
  return ts_row_piece_fits(p) ? p->n_cols / 4 : p->n_cols;
}

static inline ts_err ts_copy_rows_launch(const ts_row_args *a, int64_t most,
                                         cudaStream_t stream) {
  int64_t n = 0;
  for (int32_t k = 0; k < a->n_pieces; k++)
    ts_view_widen(&n,
                  ts_view_blocks(a->piece[k].n, ts_row_vectors(&a->piece[k]),
                                 TS_VIEW_ROWS));
  if (n == 0) return TS_OK;
  return TS_CUDA_LAUNCH(ts_copy_rows_kernel, ts_view_grid(n, a->n_pieces, most),
                        dim3(TS_VIEW_THREADS), 0, stream, *a);
}

static inline ts_err ts_sum_rows_launch(const ts_row_args *a, int64_t most,
                                        cudaStream_t stream) {
  int64_t n = 0;
  for (int32_t k = 0; k < a->n_pieces; k++)
    ts_view_widen(
        &n, ts_view_blocks(a->piece[k].count, ts_row_vectors(&a->piece[k]), 1));
  if (n == 0) return TS_OK;
  return TS_CUDA_LAUNCH(ts_sum_rows_kernel, ts_view_grid(n, a->n_pieces, most),
                        dim3(TS_VIEW_THREADS), 0, stream, *a);
}

static inline ts_err ts_scale_rows_launch(const ts_scale_args *a, int64_t most,
                                          cudaStream_t stream) {
  int64_t n = 0;
  for (int32_t k = 0; k < a->n_pieces; k++) {
    const ts_scale_piece *p = &a->piece[k];
    const bool fits = ts_view_fits(p->x, p->step, p->n_cols);
    ts_view_widen(&n, ts_view_blocks(p->n, fits ? p->n_cols / 4 : p->n_cols,
                                     TS_VIEW_ROWS));
  }
  if (n == 0) return TS_OK;
  return TS_CUDA_LAUNCH(ts_scale_rows_kernel,
                        ts_view_grid(n, a->n_pieces, most),
                        dim3(TS_VIEW_THREADS), 0, stream, *a);
}

static inline int64_t ts_code_blocks(const ts_code_args *a,
                                     const ts_code_piece *p) {
  if (a->codec == TS_CODEC_INT8)
    return ts_view_blocks(p->n, ts_int8_words(p->n_cols),
                          a->encode ? 1 : TS_VIEW_ROWS);
  return ts_view_blocks(p->n, ts_code_fits(a, p) ? p->n_cols / 4 : p->n_cols,
                        TS_VIEW_ROWS);
}

template <bool ENCODE>
static ts_err ts_code_start(const ts_code_args *a, dim3 grid,
                            cudaStream_t stream) {
  const dim3 block(TS_VIEW_THREADS);
  switch (a->codec) {
  case TS_CODEC_BF16:
    return TS_CUDA_LAUNCH((ts_code_16_kernel<ts_code_bf16, ENCODE>), grid,
                          block, 0, stream, *a);
  case TS_CODEC_F16:
    return TS_CUDA_LAUNCH((ts_code_16_kernel<ts_code_f16, ENCODE>), grid, block,
                          0, stream, *a);
  case TS_CODEC_INT8:
    return TS_CUDA_LAUNCH((ts_code_int8_kernel<ENCODE>), grid, block, 0, stream,
                          *a);
  default:
    return ts_fail(TS_ERR_INTERNAL, "rows of f32 are not coded");
  }
}

static inline ts_err ts_code_rows_launch(const ts_code_args *a, int64_t most,
                                         cudaStream_t stream) {
  int64_t n = 0;
  for (int32_t k = 0; k < a->n_pieces; k++)
    ts_view_widen(&n, ts_code_blocks(a, &a->piece[k]));
  if (n == 0) return TS_OK;
  const dim3 grid = ts_view_grid(n, a->n_pieces, most);
  return a->encode ? ts_code_start<true>(a, grid, stream)
                   : ts_code_start<false>(a, grid, stream);
}

/* ---- positions ----------------------------------------------------------- */

static inline ts_err ts_weigh_positions_launch(const ts_position_args *a,
                                               int64_t most,
                                               cudaStream_t stream) {
  if (a->n_slots == 0 || a->most_ids == 0) return TS_OK;
  const int64_t n = ts_ceil_div(a->most_ids, 4 * TS_POSITION_THREADS);
  return TS_CUDA_LAUNCH(ts_weigh_positions_kernel,
                        ts_view_grid(n, a->n_slots, most),
                        dim3(TS_POSITION_THREADS), 0, stream, *a);
}

static inline ts_err ts_sum_positions_launch(const ts_position_args *a,
                                             cudaStream_t stream) {
  ts_position_sums p;
  int32_t most = 0;
  if (a->n_slots == 0 || a->most_ids == 0) return TS_OK;
  p.args = *a;
  p.n_groups = 0;
  for (int32_t k = 0; k < a->n_slots; k++) {
    if (k == 0 || a->slot[k].sum != a->slot[k - 1].sum)
      p.first[p.n_groups++] = (uint8_t)k;
    most = a->slot[k].n > most ? a->slot[k].n : most;
  }
  p.first[p.n_groups] = (uint8_t)a->n_slots;
  const int64_t n = ts_ceil_div(most - 1, TS_POSITION_PLACES) + 1;
  return TS_CUDA_LAUNCH(ts_sum_positions_kernel,
                        ts_view_grid(n, p.n_groups, TS_GRID_X_MAX),
                        dim3(TS_POSITION_THREADS), 0, stream, p);
}

static inline ts_err ts_narrow_launch(float *dst, const double *src, int64_t n,
                                      int64_t most, cudaStream_t stream) {
  if (n == 0) return TS_OK;
  return TS_CUDA_LAUNCH(ts_narrow_kernel,
                        dim3(ts_grid(n, TS_POSITION_THREADS, most)),
                        dim3(TS_POSITION_THREADS), 0, stream, dst, src, n);
}

#endif
