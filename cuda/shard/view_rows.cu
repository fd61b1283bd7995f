/* view_rows.cu - rows between views and what arrived: gathered, added by lists
 * of members, scaled (shard/view_kernels.h). */
#include "cuda/shard/view.cuh"

/* Parameters of a launch. */
static_assert(sizeof(ts_row_args) <= 4096, "too many pieces");
static_assert(sizeof(ts_scale_args) <= 4096, "too many pieces");

/* ---- copies -------------------------------------------------------------- */

TS_CUDA_BOTH static inline bool ts_row_piece_fits(const ts_row_piece *p) {
  return ts_view_fits(p->to, p->to_step, p->n_cols) &&
         ts_view_fits(p->from, p->from_step, p->n_cols);
}

template <int V> static __device__ void ts_copy_piece(const ts_row_piece &p) {
  typedef typename ts_view_vector<V>::type vector;
  const ts_view_part t = ts_view_part_of(p.n_cols / V);
  if (p.count <= 0) return;
  for (int64_t i = t.row; i < p.n; i += TS_VIEW_ROWS * t.step) {
    const vector *from[TS_VIEW_ROWS];
    vector *to[TS_VIEW_ROWS];
    bool there[TS_VIEW_ROWS];
#pragma unroll
    for (int u = 0; u < TS_VIEW_ROWS; u++) {
      const int64_t row = min(i + u * t.step, (int64_t)p.n - 1);
      const int64_t at = (p.index ? __ldg(p.index + row) : row) - p.first;
      there[u] = i + u * t.step < p.n && at >= 0 && at < p.count;
      to[u] = (vector *)(p.to + row * p.to_step);
      from[u] = (const vector *)(p.from + (there[u] ? at : 0) * p.from_step);
    }
    for (int32_t c = t.lane; c < p.n_cols / V; c += t.lanes) {
      vector x[TS_VIEW_ROWS];
#pragma unroll
      for (int u = 0; u < TS_VIEW_ROWS; u++) x[u] = __ldg(from[u] + c);
#pragma unroll
      for (int u = 0; u < TS_VIEW_ROWS; u++)
        if (there[u]) to[u][c] = x[u];
    }
  }
}

static __global__ void __launch_bounds__(TS_VIEW_THREADS)
    ts_copy_rows_kernel(const __grid_constant__ ts_row_args a) {
  const ts_row_piece &p = a.piece[blockIdx.y];
  if (ts_row_piece_fits(&p))
    ts_copy_piece<4>(p);
  else
    ts_copy_piece<1>(p);
}

static int64_t copy_blocks(const ts_row_piece *p) {
  return ts_view_blocks(p->n, ts_row_piece_fits(p) ? p->n_cols / 4 : p->n_cols,
                        TS_VIEW_ROWS);
}

ts_err ts_cuda_copy_rows(const ts_row_args *a) {
  return ts_view_launch(a, copy_blocks, [=](const ts_cuda_shape &shape) {
    return TS_CUDA_LAUNCH(ts_copy_rows_kernel, shape, *a);
  });
}

/* ---- sums ---------------------------------------------------------------- */

/* One vector of row J's sum: members in their order. */
template <class Vector>
static __device__ __forceinline__ Vector ts_member_sum(const ts_row_piece &p,
                                                       int32_t from, int32_t to,
                                                       int32_t c) {
  Vector sum;
  ts_view_clear(&sum);
  for (int32_t k = from; k < to; k += TS_VIEW_MEMBERS) {
    int32_t row[TS_VIEW_MEMBERS];
    Vector x[TS_VIEW_MEMBERS];
#pragma unroll
    for (int u = 0; u < TS_VIEW_MEMBERS; u++)
      row[u] = __ldg(p.member + min(k + u, to - 1));
#pragma unroll
    for (int u = 0; u < TS_VIEW_MEMBERS; u++)
      x[u] =
          __ldg((const Vector *)(p.from + (int64_t)row[u] * p.from_step) + c);
#pragma unroll
    for (int u = 0; u < TS_VIEW_MEMBERS; u++)
      sum = ts_view_sum_if(k + u < to, sum, x[u]);
  }
  return sum;
}

template <int V> static __device__ void ts_sum_piece(const ts_row_piece &p) {
  typedef typename ts_view_vector<V>::type vector;
  const ts_view_part t = ts_view_part_of(p.n_cols / V);
  for (int64_t j = t.row; j < p.count; j += t.step) {
    const int32_t from = __ldg(p.member_start + p.first + j);
    const int32_t to = __ldg(p.member_start + p.first + j + 1);
    vector *x = (vector *)(p.to + j * p.to_step);
    for (int32_t c = t.lane; c < p.n_cols / V; c += t.lanes)
      x[c] = ts_member_sum<vector>(p, from, to, c);
  }
}

static __global__ void __launch_bounds__(TS_VIEW_THREADS)
    ts_sum_rows_kernel(const __grid_constant__ ts_row_args a) {
  const ts_row_piece &p = a.piece[blockIdx.y];
  if (ts_row_piece_fits(&p))
    ts_sum_piece<4>(p);
  else
    ts_sum_piece<1>(p);
}

static int64_t sum_blocks(const ts_row_piece *p) {
  return ts_view_blocks(p->count,
                        ts_row_piece_fits(p) ? p->n_cols / 4 : p->n_cols, 1);
}

ts_err ts_cuda_sum_rows(const ts_row_args *a) {
  return ts_view_launch(a, sum_blocks, [=](const ts_cuda_shape &shape) {
    return TS_CUDA_LAUNCH(ts_sum_rows_kernel, shape, *a);
  });
}

/* ---- scales -------------------------------------------------------------- */

template <int V>
static __device__ void ts_scale_piece_by(const ts_scale_piece &p) {
  typedef typename ts_view_vector<V>::type vector;
  const ts_view_part t = ts_view_part_of(p.n_cols / V);
  for (int64_t i = t.row; i < p.n; i += TS_VIEW_ROWS * t.step) {
    vector *row[TS_VIEW_ROWS];
    float by[TS_VIEW_ROWS];
#pragma unroll
    for (int u = 0; u < TS_VIEW_ROWS; u++) {
      const int64_t at = min(i + u * t.step, (int64_t)p.n - 1);
      row[u] = (vector *)(p.x + at * p.step);
      by[u] = __ldg(p.by + at);
    }
    for (int32_t c = t.lane; c < p.n_cols / V; c += t.lanes) {
      vector x[TS_VIEW_ROWS];
#pragma unroll
      for (int u = 0; u < TS_VIEW_ROWS; u++) x[u] = row[u][c];
#pragma unroll
      for (int u = 0; u < TS_VIEW_ROWS; u++)
        if (i + u * t.step < p.n) row[u][c] = ts_view_product(x[u], by[u]);
    }
  }
}

static __global__ void __launch_bounds__(TS_VIEW_THREADS)
    ts_scale_rows_kernel(const __grid_constant__ ts_scale_args a) {
  const ts_scale_piece &p = a.piece[blockIdx.y];
  if (ts_view_fits(p.x, p.step, p.n_cols))
    ts_scale_piece_by<4>(p);
  else
    ts_scale_piece_by<1>(p);
}

static int64_t scale_blocks(const ts_scale_piece *p) {
  const bool fits = ts_view_fits(p->x, p->step, p->n_cols);
  return ts_view_blocks(p->n, fits ? p->n_cols / 4 : p->n_cols, TS_VIEW_ROWS);
}

ts_err ts_cuda_scale_rows(const ts_scale_args *a) {
  return ts_view_launch(a, scale_blocks, [=](const ts_cuda_shape &shape) {
    return TS_CUDA_LAUNCH(ts_scale_rows_kernel, shape, *a);
  });
}
