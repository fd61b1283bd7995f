/* cross_launch.cuh - from the arguments of what is by element to launches
 * (cuda/dense/cross_kernels.cuh).  cuda/dense/cross.cu launches; tests define
 * TS_CUDA_LAUNCH and run the same on the CPU.  MOST: blocks of a grid. */
#ifndef TS_CUDA_CROSS_LAUNCH_CUH
#define TS_CUDA_CROSS_LAUNCH_CUH

#include "cuda/dense/cross_kernels.cuh"
#include "runtime/row_pieces.h"

/* ---- cross layers -------------------------------------------------------- */

/* Whether P, or NULL, lies on a border of BYTES. */
static inline bool ts_cross_fits(const void *p, uintptr_t bytes) {
  return (uintptr_t)p % bytes == 0;
}

static inline bool ts_cross_is_wide(const ts_cross_args *a) {
  const uintptr_t side = a->half ? 8 : 16;
  return a->width % 4 == 0 && a->stride % 4 == 0 && a->t_stride % 4 == 0 &&
         ts_cross_fits(a->x0, 16) && ts_cross_fits(a->x, 16) &&
         ts_cross_fits(a->y, 16) && ts_cross_fits(a->y16, 8) &&
         ts_cross_fits(a->dy, 16) && ts_cross_fits(a->dy16, 8) &&
         ts_cross_fits(a->dx0, 16) && ts_cross_fits(a->t, side) &&
         ts_cross_fits(a->dt, side) && ts_cross_fits(a->add, side);
}

template <class T, bool WIDE>
static ts_err ts_cross_start(const ts_cross_args *a, bool back, dim3 grid,
                             cudaStream_t stream) {
  const dim3 block(TS_CROSS_THREADS);
  if (back)
    return TS_CUDA_LAUNCH((ts_cross_grad_kernel<T, WIDE>), grid, block, 0,
                          stream, *a);
  return TS_CUDA_LAUNCH((ts_cross_kernel<T, WIDE>), grid, block, 0, stream, *a);
}

static inline dim3 ts_cross_grid(int64_t rows, int32_t width, int64_t most) {
  const int shift = ts_lanes_shift((width + 3) / 4);
  return dim3(ts_grid(rows, TS_CROSS_THREADS >> shift, most));
}

static inline ts_err ts_cross_launch(const ts_cross_args *a, bool back,
                                     int64_t most, cudaStream_t stream) {
  const dim3 grid = ts_cross_grid(a->batch, a->width, most);
  const bool wide = ts_cross_is_wide(a);
  if (a->batch == 0 || a->width == 0) return TS_OK;
  if (a->half)
    return wide ? ts_cross_start<uint16_t, true>(a, back, grid, stream)
                : ts_cross_start<uint16_t, false>(a, back, grid, stream);
  return wide ? ts_cross_start<float, true>(a, back, grid, stream)
              : ts_cross_start<float, false>(a, back, grid, stream);
}

/* ---- factorisation machine ----------------------------------------------- */

static inline ts_err ts_fm_launch(const ts_fm_args *a, bool back, int64_t most,
                                  cudaStream_t stream) {
  const dim3 grid(ts_grid(a->batch, TS_CROSS_THREADS / TS_FM_LANES, most));
  const dim3 block(TS_CROSS_THREADS);
  if (a->batch == 0) return TS_OK;
  if (back)
    return TS_CUDA_LAUNCH(ts_fm_grad_kernel, grid, block, 0, stream, *a);
  return TS_CUDA_LAUNCH(ts_fm_kernel, grid, block, 0, stream, *a);
}

/* ---- rows side by side --------------------------------------------------- */

/* Part K of A, -1 its first: rows of PART and where they lie in wide. */
static inline ts_add_part ts_join_part(const ts_join_args *a, int32_t k) {
  if (k < 0)
    return {a->wide,        a->first, a->stride,
            a->first_width, a->batch, a->first_width};
  return {a->wide + a->at[k], a->part[k], a->stride,
          a->part_stride[k],  a->batch,   a->width[k]};
}

static inline ts_err ts_join_add(const ts_join_args *a, int64_t most,
                                 cudaStream_t stream) {
  ts_err err = TS_OK;
  for (int32_t k = -1; k < a->n_parts && err == TS_OK; k++) {
    const ts_add_part p = ts_join_part(a, k);
    const dim3 grid = ts_cross_grid(p.rows, p.n, most);
    const dim3 block(TS_CROSS_THREADS);
    const bool wide = p.n % 4 == 0 && p.to_stride % 4 == 0 &&
                      p.from_stride % 4 == 0 && ts_cross_fits(p.to, 16) &&
                      ts_cross_fits(p.from, 16);
    if (p.rows == 0 || p.n == 0) continue;
    err = wide ? TS_CUDA_LAUNCH(ts_add_part_kernel<true>, grid, block, 0,
                                stream, p)
               : TS_CUDA_LAUNCH(ts_add_part_kernel<false>, grid, block, 0,
                                stream, p);
  }
  return err;
}

/* Copies are the entry COPY_ROWS', TS_ROW_PIECES parts at a time. */
static inline ts_err ts_join_copy(const ts_join_args *a, bool split,
                                  ts_err (*copy_rows)(const ts_row_args *)) {
  ts_err err = TS_OK;
  ts_row_args r = {};
  r.n_pieces = 0;
  for (int32_t k = -1; k < a->n_parts && err == TS_OK; k++) {
    const ts_add_part p = ts_join_part(a, k);
    ts_row_piece *q = &r.piece[r.n_pieces];
    if (p.rows > 0 && p.n > 0) {
      const int32_t wide = (int32_t)p.to_stride, own = (int32_t)p.from_stride;
      *q = ts_row_piece();
      q->to = split ? (float *)p.from : p.to;
      q->from = split ? p.to : p.from;
      q->to_step = split ? own : wide;
      q->from_step = split ? wide : own;
      q->n = q->count = p.rows;
      q->n_cols = p.n;
      r.n_pieces++;
    }
    if (r.n_pieces == TS_ROW_PIECES || (k + 1 == a->n_parts && r.n_pieces)) {
      err = copy_rows(&r);
      r.n_pieces = 0;
    }
  }
  return err;
}

#endif
