/* attention_half_grad.cu - attention's gradients with products of bf16: a block
 * has 64 queries and goes over the keys for dq, or 64 keys and goes over the
 * queries for dk, dv and its part of the biases' gradients, as
 * attention_grad.cu does. */
#include "cuda/model/attention_grad.cuh"
#include "cuda/model/attention_half.cuh"

/* A turn is over so many rows of the others: registers would not do for more,
 * with two numbers of each pair. */
enum { TS_HALF_TURN = 32, TS_HALF_EIGHTS = TS_HALF_TURN / 8 };

/* q with k, d_o with v: the block's own rows and a turn's. */
struct ts_half_grad_shared {
  ts_half_line own[2][TS_ATTENTION_TILE], other[2][TS_HALF_TURN];
};

/* The tile gets the columns from COL on of X again, where X has more than one
 * piece of columns: what it holds is the last one. */
static __device__ __forceinline__ void
ts_half_again(ts_half_line *to, const ts_attention_rows &x, int col) {
  if (x.dim <= TS_ATTENTION_TILE) return;
  __syncthreads();
  ts_half_fill<TS_HALF_TURN>(to, x, col);
  __syncthreads();
}

/* ---- queries ------------------------------------------------------------- */

template <bool timed>
static __device__ void ts_half_dq_block(const ts_attention_args &t,
                                        const ts_attention_head &d, int32_t i,
                                        int col, ts_half_grad_shared &m) {
  const int32_t end = d.end(t, i), row = i + ts_half_row();
  const ts_attention_rows q = d.rows(t.q, t.q_stride, t.dim, i);
  const ts_attention_rows g = d.rows(t.d_o, t.o_stride, t.v_dim, i);
  const ts_attention_query query[2] = {ts_attention_query_of(t, d, row),
                                       ts_attention_query_of(t, d, row + 8)};
  const float keep = 1 / (1 - t.drop), scale[2] = {t.scale, t.scale};
  float dq[8][4] = {};
  for (int32_t j = 0; j < end; j += TS_HALF_TURN) {
    const ts_attention_rows k = d.rows(t.k, t.k_stride, t.dim, j);
    const int32_t column = j + ts_half_column();
    float x[TS_HALF_EIGHTS][4], dx[TS_HALF_EIGHTS][4];
    __syncthreads();
    ts_half_dots<TS_HALF_EIGHTS>(x, m.own[0], m.other[0], q, k, j > 0);
    ts_half_dots<TS_HALF_EIGHTS>(dx, m.own[1], m.other[1], g,
                                 d.rows(t.v, t.v_stride, t.v_dim, j), j > 0);
    const ts_half_kept kept =
        ts_half_kept_of<false, TS_HALF_EIGHTS>(t, d, i, j);
    ts_attention_grads<timed>(t, d, [&](auto f) {
#pragma unroll
      for (int e = 0; e < TS_HALF_TURN / 2; e++) {
        const int n = e / 4, r = e % 4 / 2;
        f(x[n][e % 4], dx[n][e % 4], row + 8 * r, column + 8 * n + e % 2,
          query[r], kept.is(n, e % 4) ? keep : 0.0f);
      }
    });
    ts_half_again(m.other[0], k, col);
    ts_half_times<TS_HALF_EIGHTS>(dq, dx, m.other[0], t.dim - col);
  }
  ts_half_store(t.dq + d.at(t.q_stride, t.dim, i), t.q_stride, d.length - i,
                t.dim, col, dq, scale);
}

template <bool timed>
static __global__ void __launch_bounds__(TS_HALF_THREADS, timed ? 2 : 4)
    ts_half_dq_kernel(const __grid_constant__ ts_attention_args t,
                      const __grid_constant__ ts_attention_tasks w) {
  __shared__ ts_half_grad_shared m;
  ts_attention_each(t, w, [&](const ts_attention_head &d, int32_t i, int col) {
    ts_half_dq_block<timed>(t, d, i, col, m);
  });
}

/* ---- keys ---------------------------------------------------------------- */

struct ts_half_dk_shared {
  ts_half_grad_shared tiles;
  ts_attention_query query[TS_HALF_TURN];
  float sum[2 * TS_ATTENTION_TILE];
};
static_assert(sizeof(ts_half_line[2][TS_HALF_TURN]) >=
                  sizeof(ts_attention_line[TS_HALF_TURN]),
              "dx lies where a turn's tiles were");

/* DX to the biases' gradients, at the end of a turn. */
template <bool timed>
static __device__ __forceinline__ void
ts_half_biases(const ts_attention_args &t, const ts_attention_head &d,
               ts_half_dk_shared &m, const float dx[TS_HALF_EIGHTS][4],
               int32_t i, int32_t j) {
  ts_attention_line *to = (ts_attention_line *)m.tiles.other;
  if (!t.dbias && !t.dtime_bias) return;
  __syncthreads();
#pragma unroll
  for (int k = 0; k < TS_HALF_TURN / 2; k++)
    to[ts_half_column() + 8 * (k / 4) + k % 2]
      [ts_half_row() + 8 * (k % 4 / 2)] = dx[k / 4][k % 4];
  ts_attention_bias_grads<TS_HALF_THREADS, TS_HALF_TURN, timed>(
      t, d, to, m.sum, i, j, ts_attention_part_of(t, d, j));
}

template <bool timed>
static __device__ void ts_half_dk_block(const ts_attention_args &t,
                                        const ts_attention_head &d, int32_t j,
                                        int col, ts_half_dk_shared &m) {
  const ts_attention_rows k = d.rows(t.k, t.k_stride, t.dim, j);
  const ts_attention_rows v = d.rows(t.v, t.v_stride, t.v_dim, j);
  const float keep = 1 / (1 - t.drop);
  const float scale[2] = {t.scale, t.scale}, one[2] = {1, 1};
  float dk[8][4] = {}, dv[8][4] = {};
  bool there = false;
  for (int32_t i = 0; i < d.length; i += TS_HALF_TURN) {
    if (t.causal && i >= t.context) i = max(i, j);
    const ts_attention_rows q = d.rows(t.q, t.q_stride, t.dim, i);
    const ts_attention_rows g = d.rows(t.d_o, t.o_stride, t.v_dim, i);
    const int own = (int)threadIdx.x;
    float x[TS_HALF_EIGHTS][4], dx[TS_HALF_EIGHTS][4];
    __syncthreads();
    if (own < TS_HALF_TURN) m.query[own] = ts_attention_query_of(t, d, i + own);
    ts_half_dots<TS_HALF_EIGHTS>(x, m.tiles.own[0], m.tiles.other[0], k, q,
                                 there);
    ts_half_dots<TS_HALF_EIGHTS>(dx, m.tiles.own[1], m.tiles.other[1], v, g,
                                 there);
    there = true;
    const ts_half_kept kept = ts_half_kept_of<true, TS_HALF_EIGHTS>(t, d, i, j);
    ts_attention_grads<timed>(t, d, [&](auto f) {
#pragma unroll
      for (int e = 0; e < TS_HALF_TURN / 2; e++) {
        const int n = e / 4, column = ts_half_column() + 8 * n + e % 2;
        f(x[n][e % 4], dx[n][e % 4], i + column,
          j + ts_half_row() + 8 * (e % 4 / 2), m.query[column],
          kept.is(n, e % 4) ? keep : 0.0f);
      }
    });
    ts_half_again(m.tiles.other[1], g, col);
    ts_half_times<TS_HALF_EIGHTS>(dv, x, m.tiles.other[1], t.v_dim - col);
    ts_half_again(m.tiles.other[0], q, col);
    ts_half_times<TS_HALF_EIGHTS>(dk, dx, m.tiles.other[0], t.dim - col);
    if (col == 0) ts_half_biases<timed>(t, d, m, dx, i, j);
  }
  ts_half_store(t.dk + d.at(t.k_stride, t.dim, j), t.k_stride, d.length - j,
                t.dim, col, dk, scale);
  ts_half_store(t.dv + d.at(t.v_stride, t.v_dim, j), t.v_stride, d.length - j,
                t.v_dim, col, dv, one);
}

template <bool timed>
static __global__ void __launch_bounds__(TS_HALF_THREADS, timed ? 2 : 3)
    ts_half_dk_kernel(const __grid_constant__ ts_attention_args t,
                      const __grid_constant__ ts_attention_tasks w) {
  __shared__ ts_half_dk_shared m;
  ts_attention_each(t, w, [&](const ts_attention_head &d, int32_t j, int col) {
    ts_half_dk_block<timed>(t, d, j, col, m);
  });
}

/* ---- launches ------------------------------------------------------------ */

template <bool timed>
static ts_err ts_half_launch_grad(const ts_attention_args *t,
                                  const ts_attention_tasks &queries,
                                  const ts_attention_tasks &keys) {
  TS_DO(TS_CUDA_LAUNCH(ts_half_dq_kernel<timed>,
                       ts_attention_shape(queries, TS_HALF_THREADS), *t,
                       queries));
  return TS_CUDA_LAUNCH(ts_half_dk_kernel<timed>,
                        ts_attention_shape(keys, TS_HALF_THREADS), *t, keys);
}

ts_err ts_cuda_attention_half_grad(const ts_attention_args *t) {
  return ts_attention_grad_by(t, t->time_bias ? ts_half_launch_grad<true>
                                              : ts_half_launch_grad<false>);
}
