/* join.cu - rows side by side: parts are added to wide rows, or copied. */
#include "cuda/dense/cross.cuh"

extern "C" {
#include "runtime/row_pieces.h"
}

/* Row i of TO += row i of FROM, N columns. */
struct ts_add_part {
  float *to;
  const float *from;
  int64_t to_stride, from_stride;
  int32_t rows, n;
};

template <bool WIDE>
__global__ void __launch_bounds__(TS_CROSS_THREADS)
    ts_add_part_kernel(const __grid_constant__ ts_add_part a) {
  ts_cross_each(a.rows, a.n, [&](int64_t i, int32_t c, int n) {
    float *to = a.to + i * a.to_stride + c;
    const float *from = a.from + i * a.from_stride + c;
    ts_cross_put<WIDE>(
        to, n,
        ts_cross_sum(ts_cross_get<WIDE>(to, n), ts_cross_get<WIDE>(from, n)));
  });
}

/* Part K of A, -1 its first: rows of PART and where they lie in wide. */
static ts_add_part part_of(const ts_join_args *a, int32_t k) {
  if (k < 0)
    return {a->wide,        a->first, a->stride,
            a->first_width, a->batch, a->first_width};
  return {a->wide + a->at[k], a->part[k], a->stride,
          a->part_stride[k],  a->batch,   a->width[k]};
}

static ts_err add(const ts_join_args *a) {
  ts_err err = TS_OK;
  for (int32_t k = -1; k < a->n_parts && err == TS_OK; k++) {
    const ts_add_part p = part_of(a, k);
    const ts_cuda_shape shape = ts_cross_shape(p.rows, p.n);
    const bool wide = p.n % 4 == 0 && p.to_stride % 4 == 0 &&
                      p.from_stride % 4 == 0 && ts_cross_fits(p.to, 16) &&
                      ts_cross_fits(p.from, 16);
    if (p.rows == 0 || p.n == 0) continue;
    err = wide ? TS_CUDA_LAUNCH(ts_add_part_kernel<true>, shape, p)
               : TS_CUDA_LAUNCH(ts_add_part_kernel<false>, shape, p);
  }
  return err;
}

/* Copies are copy_rows', TS_ROW_PIECES parts at a time. */
static ts_err copy(const ts_join_args *a, bool split) {
  ts_err err = TS_OK;
  ts_row_args r = {};
  r.n_pieces = 0;
  for (int32_t k = -1; k < a->n_parts && err == TS_OK; k++) {
    const ts_add_part p = part_of(a, k);
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
      err = ts_cuda_copy_rows(&r);
      r.n_pieces = 0;
    }
  }
  return err;
}

ts_err ts_cuda_join_rows(const ts_join_args *a) {
  return a->add ? add(a) : copy(a, false);
}

ts_err ts_cuda_split_rows(const ts_join_args *a) {
  return copy(a, true);
}
