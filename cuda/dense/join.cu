/* join.cu - rows side by side: parts are added to wide rows, or copied,
 * those of bf16 rounded or widened. */
#include "cuda/dense/cross.cuh"

extern "C" {
#include "runtime/row_pieces.h"
}

/* Up to as many parts as parameters of a launch hold.  Row i of WIDE's columns
 * [at, at + n) and row i of OWN, which is STEP floats from the next. */
enum { TS_JOIN_PARTS = 160 };
struct ts_join_part {
  float *own;
  int64_t step;
  int32_t at, n;
};
struct ts_join_parts {
  void *wide;
  int32_t stride, rows;
  ts_join_part part[TS_JOIN_PARTS];
};
static_assert(sizeof(ts_join_parts) <= 4096, "too many parts");

enum ts_join_how { TS_JOIN_COPY, TS_JOIN_ADD, TS_JOIN_SPLIT };

/* T: of wide. */
template <class T, ts_join_how HOW, bool WIDE>
static __device__ void ts_join_one(const ts_join_parts &a,
                                   const ts_join_part &p) {
  constexpr int V = 16 / sizeof(T);
  ts_cross_each<V>(a.rows, p.n, [&](int64_t i, int32_t c, int n) {
    T *wide = (T *)a.wide + i * a.stride + p.at + c;
    float *own = p.own + i * p.step + c;
    if (HOW == TS_JOIN_SPLIT) {
      ts_cols_put<V, WIDE>(own, n, ts_cols_get<V, WIDE>(wide, n));
    } else {
      auto x = ts_cols_get<V, WIDE>(own, n);
      if (HOW == TS_JOIN_ADD) x = ts_cols_sum(ts_cols_get<V, WIDE>(wide, n), x);
      ts_cols_put<V, WIDE>(wide, n, x);
    }
  });
}

template <class T, ts_join_how HOW>
__global__ void __launch_bounds__(TS_CROSS_THREADS, TS_CROSS_BLOCKS)
    ts_join_kernel(const __grid_constant__ ts_join_parts a) {
  const ts_join_part &p = a.part[blockIdx.y];
  const int v = 16 / sizeof(T);
  if (p.n % v == 0 && p.at % v == 0 && a.stride % v == 0 && p.step % 4 == 0 &&
      ts_cross_fits(a.wide) && ts_cross_fits(p.own))
    ts_join_one<T, HOW, true>(a, p);
  else
    ts_join_one<T, HOW, false>(a, p);
}

/* Part K of A, -1 its first. */
static ts_join_part part_of(const ts_join_args *a, int32_t k) {
  if (k < 0) return {a->first, a->first_width, 0, a->first_width};
  return {a->part[k], a->part_stride[k], a->at[k], a->width[k]};
}

/* One launch for TS_JOIN_PARTS parts, as wide as the widest needs. */
template <class T, ts_join_how HOW> static ts_err each(const ts_join_args *a) {
  ts_join_parts p = {a->wide, a->stride, a->batch, {}};
  int32_t n = 0, most = 0;
  for (int32_t k = -1; k < a->n_parts; k++) {
    p.part[n] = part_of(a, k);
    if (p.part[n].n > 0) {
      most = p.part[n].n > most ? p.part[n].n : most;
      n++;
    }
    if (n == TS_JOIN_PARTS || (k + 1 == a->n_parts && n)) {
      ts_cuda_shape shape = ts_cross_shape<16 / sizeof(T)>(a->batch, most);
      shape.grid.y = (unsigned)n;
      TS_DO(TS_CUDA_LAUNCH((ts_join_kernel<T, HOW>), shape, p));
      n = 0;
    }
  }
  return TS_OK;
}

/* Copies are copy_rows', TS_ROW_PIECES parts at a time. */
static ts_err copy(const ts_join_args *a, bool split) {
  ts_err err = TS_OK;
  ts_row_args r = {};
  r.n_pieces = 0;
  for (int32_t k = -1; k < a->n_parts && err == TS_OK; k++) {
    const ts_join_part p = part_of(a, k);
    ts_row_piece *q = &r.piece[r.n_pieces];
    if (p.n > 0) {
      float *wide = (float *)a->wide + p.at;
      *q = ts_row_piece();
      q->to = split ? p.own : wide;
      q->from = split ? wide : p.own;
      q->to_step = split ? (int32_t)p.step : a->stride;
      q->from_step = split ? a->stride : (int32_t)p.step;
      q->n = q->count = a->batch;
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
  if (a->batch == 0) return TS_OK;
  if (a->half) return each<uint16_t, TS_JOIN_COPY>(a);
  return a->add ? each<float, TS_JOIN_ADD>(a) : copy(a, false);
}

ts_err ts_cuda_split_rows(const ts_join_args *a) {
  if (a->batch == 0) return TS_OK;
  return a->half ? each<uint16_t, TS_JOIN_SPLIT>(a) : copy(a, true);
}
