/* attention_grad.cu - attention's gradients: a block has 64 queries and goes
 * over the keys for dq, or 64 keys and goes over the queries for dk, dv and its
 * part of dbias; scores are made anew by both. */
#include "cuda/model/attention_grad.cuh"
#include "cuda/model/columns.cuh"

/* ---- queries ------------------------------------------------------------- */

template <bool timed>
static __device__ void
ts_attention_dq_block(const ts_attention_args &t, const ts_attention_head &d,
                      int32_t i, int col, ts_attention_shared &m) {
  const int32_t end = d.end(t, i);
  const ts_attention_rows q = d.rows(t.q, t.q_stride, t.dim, i);
  const ts_attention_rows g = d.rows(t.d_o, t.o_stride, t.v_dim, i);
  float dq[4][4] = {};
  const float keep = 1 / (1 - t.drop);
  const float scale[4] = {t.scale, t.scale, t.scale, t.scale};
  for (int32_t j = 0; j < end; j += TS_ATTENTION_TILE) {
    const ts_attention_rows k = d.rows(t.k, t.k_stride, t.dim, j);
    float x[4][4], dx[4][4];
    ts_attention_dots(x, m, q, k);
    ts_attention_dots(dx, m, g, d.rows(t.v, t.v_stride, t.v_dim, j));
    const uint32_t kept = ts_attention_kept<4>(t, d, i + ts_attention_row(),
                                               j + ts_attention_column(), 0, 1);
    ts_attention_grads<timed>(t, d, [&](auto f) {
#pragma unroll
      for (int r = 0; r < 4; r++) {
        const int32_t own = i + ts_attention_row() + r;
        const ts_attention_query query = ts_attention_query_of(t, d, own);
#pragma unroll
        for (int c = 0; c < 4; c++)
          f(x[r][c], dx[r][c], own, j + ts_attention_column() + c, query,
            kept >> (4 * c + r) & 1 ? keep : 0.0f);
      }
    });
    ts_attention_put(m, dx);
    ts_attention_times(dq, m, k, col);
  }
  ts_attention_store(t.dq + d.at(t.q_stride, t.dim, i), t.q_stride,
                     d.length - i, t.dim, col, dq, scale);
}

template <bool timed>
static __global__ void __launch_bounds__(TS_ATTENTION_THREADS, timed ? 1 : 2)
    ts_attention_dq_kernel(const __grid_constant__ ts_attention_args t,
                           const __grid_constant__ ts_attention_tasks w) {
  __shared__ ts_attention_shared m;
  ts_attention_each(t, w, [&](const ts_attention_head &d, int32_t i, int col) {
    ts_attention_dq_block<timed>(t, d, i, col, m);
  });
}

/* ---- keys ---------------------------------------------------------------- */

template <bool timed>
static __device__ void
ts_attention_dk_block(const ts_attention_args &t, const ts_attention_head &d,
                      int32_t j, int col, ts_attention_shared &m) {
  const ts_attention_rows k = d.rows(t.k, t.k_stride, t.dim, j);
  const ts_attention_rows v = d.rows(t.v, t.v_stride, t.v_dim, j);
  float *part = ts_attention_part_of(t, d, j);
  float dk[4][4] = {}, dv[4][4] = {};
  const float keep = 1 / (1 - t.drop);
  const float one[4] = {1, 1, 1, 1};
  const float scale[4] = {t.scale, t.scale, t.scale, t.scale};
  for (int32_t i = 0; i < d.length; i += TS_ATTENTION_TILE) {
    if (t.causal && i >= t.context) i = max(i, j);
    const ts_attention_rows q = d.rows(t.q, t.q_stride, t.dim, i);
    const ts_attention_rows g = d.rows(t.d_o, t.o_stride, t.v_dim, i);
    float x[4][4], dx[4][4];
    ts_attention_dots(x, m, k, q);
    ts_attention_dots(dx, m, v, g);
    const uint32_t kept = ts_attention_kept<4>(t, d, i + ts_attention_column(),
                                               j + ts_attention_row(), 0, 1);
    ts_attention_grads<timed>(t, d, [&](auto f) {
#pragma unroll
      for (int c = 0; c < 4; c++) {
        const int32_t own = i + ts_attention_column() + c;
        const ts_attention_query query = ts_attention_query_of(t, d, own);
#pragma unroll
        for (int r = 0; r < 4; r++)
          f(x[r][c], dx[r][c], own, j + ts_attention_row() + r, query,
            kept >> (4 * r + c) & 1 ? keep : 0.0f);
      }
    });
    ts_attention_put(m, x);
    ts_attention_times(dv, m, g, col);
    ts_attention_put(m, dx);
    ts_attention_times(dk, m, q, col);
    if (col == 0)
      ts_attention_bias_grads<TS_ATTENTION_THREADS, TS_ATTENTION_TILE, timed>(
          t, d, m.p, m.sum, i, j, part);
  }
  ts_attention_store(t.dk + d.at(t.k_stride, t.dim, j), t.k_stride,
                     d.length - j, t.dim, col, dk, scale);
  ts_attention_store(t.dv + d.at(t.v_stride, t.v_dim, j), t.v_stride,
                     d.length - j, t.v_dim, col, dv, one);
}

template <bool timed>
static __global__ void __launch_bounds__(TS_ATTENTION_THREADS)
    ts_attention_dk_kernel(const __grid_constant__ ts_attention_args t,
                           const __grid_constant__ ts_attention_tasks w) {
  __shared__ ts_attention_shared m;
  ts_attention_each(t, w, [&](const ts_attention_head &d, int32_t j, int col) {
    ts_attention_dk_block<timed>(t, d, j, col, m);
  });
}

/* ---- before and after ---------------------------------------------------- */

/* work[token, head] = d_o . o, a warp for each. */
static __global__ void __launch_bounds__(TS_ATTENTION_THREADS)
    ts_attention_dot_kernel(const __grid_constant__ ts_attention_args t) {
  const int warps = TS_ATTENTION_THREADS / 32, lane = (int)threadIdx.x % 32;
  for (int64_t k = (int64_t)blockIdx.x * warps + threadIdx.x / 32;
       k < t.n_tokens * t.n_heads; k += (int64_t)gridDim.x * warps) {
    const int64_t at = k / t.n_heads * t.o_stride + k % t.n_heads * t.v_dim;
    float sum = 0;
    for (int c = lane; c < t.v_dim; c += 32)
      sum = fmaf(__ldg(t.d_o + at + c), __ldg(t.out + at + c), sum);
    for (int by = 16; by > 0; by /= 2)
      sum += __shfl_xor_sync(0xffffffff, sum, by);
    if (lane == 0) ((float *)t.work)[k] = sum;
  }
}

/* A part has EACH biases for a head: here the N of them from FIRST on. */
struct ts_attention_bias_parts {
  const float *part;
  int64_t n_heads, each, first;
  int32_t n;
  __device__ __forceinline__ ts_pair at(int64_t r, int32_t c) const {
    return {(double)part[(r * n_heads + c / n) * each + first + c % n], 0};
  }
};

/* dbias and dtime_bias from their N parts. */
static ts_err ts_attention_sum_parts(const ts_attention_args *t, int64_t n) {
  const int32_t n_times = t->n_times,
                n_buckets = (int32_t)ts_attention_times(t);
  ts_attention_bias_parts f = {ts_attention_parts(t), t->n_heads,
                               ts_attention_biases(t), 0, n_buckets};
  if (t->dbias)
    TS_DO(ts_columns(f, n, t->n_heads * n_buckets, t->dbias, (float *)NULL));
  f.first = n_buckets, f.n = n_times;
  return t->dtime_bias ? ts_columns(f, n, t->n_heads * n_times, t->dtime_bias,
                                    (float *)NULL)
                       : TS_OK;
}

template <bool timed>
static ts_err ts_attention_launch_grad(const ts_attention_args *t,
                                       const ts_attention_tasks &queries,
                                       const ts_attention_tasks &keys) {
  TS_DO(TS_CUDA_LAUNCH(ts_attention_dq_kernel<timed>,
                       ts_attention_shape(queries), *t, queries));
  return TS_CUDA_LAUNCH(ts_attention_dk_kernel<timed>, ts_attention_shape(keys),
                        *t, keys);
}

ts_err ts_attention_grad_by(const ts_attention_args *t,
                            ts_attention_launch launch) {
  const ts_attention_tasks queries = ts_attention_tasks_of(t, t->dim);
  const ts_attention_tasks keys =
      ts_attention_tasks_of(t, t->dim > t->v_dim ? t->dim : t->v_dim);
  const bool biases = t->dbias || t->dtime_bias;
  const int64_t parts = t->n_tokens / TS_ATTENTION_TILE + t->n_sequences;
  if (biases)
    TS_DO(ts_cuda_set(ts_attention_parts(t), 0,
                      (size_t)(parts * t->n_heads * ts_attention_biases(t)) *
                          sizeof(float)));
  if (queries.n) {
    if (t->kind == TS_ATTENTION_SOFTMAX)
      TS_DO(TS_CUDA_LAUNCH(ts_attention_dot_kernel,
                           ts_cuda_strided(t->n_tokens * t->n_heads,
                                           TS_ATTENTION_THREADS / 32,
                                           TS_ATTENTION_THREADS),
                           *t));
    TS_DO(launch(t, queries, keys));
  }
  return biases ? ts_attention_sum_parts(t, parts) : TS_OK;
}

ts_err ts_cuda_attention_grad(const ts_attention_args *t) {
  return ts_attention_grad_by(t, t->time_bias
                                     ? ts_attention_launch_grad<true>
                                     : ts_attention_launch_grad<false>);
}
