/* attention_grad.cu - attention's gradients: a block has 64 queries and goes
 * over the keys for dq, or 64 keys and goes over the queries for dk, dv and its
 * part of dbias; scores are made anew by both. */
#include "cuda/model/attention.cuh"
#include "cuda/model/columns.cuh"

/* Two numbers of a query that its row of scores needs; softmax alone. */
struct ts_attention_query {
  float lse, dot; /* dot: d_o . o */
};

static __device__ __forceinline__ ts_attention_query ts_attention_query_of(
    const ts_attention_args &t, const ts_attention_head &d, int32_t i) {
  const int64_t at = (d.begin + i) * t.n_heads + d.h;
  if (t.kind != TS_ATTENTION_SOFTMAX || i >= d.length) return {0, 0};
  return {__ldg(t.lse + at), ((const float *)t.work)[at]};
}

/* X: q . k becomes p times M, of the pair; DX: the gradient of that that of the
 * score. */
template <bool timed>
static __device__ __forceinline__ void
ts_attention_grad_of(const ts_attention_args &t, const ts_attention_head &d,
                     const ts_attention_query &own, int32_t i, int32_t j,
                     float m, float *x, float *dx) {
  if (!d.sees(t, i, j)) {
    *x = *dx = 0;
    return;
  }
  const float y = ts_attention_score<timed>(t, d, *x, i, j);
  if (t.kind == TS_ATTENTION_SOFTMAX) {
    const float p = expf(y - own.lse);
    *x = m * p;
    *dx = p * (m * *dx - own.dot);
  } else {
    const float f = 1 / (1 + expf(-y));
    *x = m * d.norm * y * f;
    *dx *= m * d.norm * f * (1 + y * (1 - f));
  }
}

/* ---- queries ------------------------------------------------------------- */

template <bool timed>
static __device__ void
ts_attention_dq_block(const ts_attention_args &t, const ts_attention_head &d,
                      int32_t i, int col, ts_attention_shared &m) {
  const int32_t end =
      ts_attention_is_open(&t, i) ? d.length
                                  : min(d.length, i + TS_ATTENTION_TILE);
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
    const uint32_t kept = ts_attention_kept(t, d, i + ts_attention_row(),
                                            j + ts_attention_column());
#pragma unroll
    for (int r = 0; r < 4; r++) {
      const int32_t own = i + ts_attention_row() + r;
      const ts_attention_query query = ts_attention_query_of(t, d, own);
#pragma unroll
      for (int c = 0; c < 4; c++)
        ts_attention_grad_of<timed>(
            t, d, query, own, j + ts_attention_column() + c,
            kept >> (4 * c + r) & 1 ? keep : 0.0f, &x[r][c], &dx[r][c]);
    }
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

/* Adds the tile's gradients of scores, in m.p by query and key, to PART: the
 * sums of diagonals, those of one bucket by the first of them. */
static __device__ void ts_attention_bias_grad(const ts_attention_args &t,
                                              ts_attention_shared &m,
                                              int32_t by, float *part) {
  const int own = (int)threadIdx.x, last = 2 * TS_ATTENTION_TILE - 2;
  const int32_t first = by - (TS_ATTENTION_TILE - 1); /* distance 0's */
  __syncthreads();
  if (own <= last) {
    float sum = 0;
    for (int i = 0; i < TS_ATTENTION_TILE; i++) {
      const int j = i - (own - (TS_ATTENTION_TILE - 1));
      if (j >= 0 && j < TS_ATTENTION_TILE) sum += m.p[i][j];
    }
    m.sum[own] = sum;
  }
  __syncthreads();
  const int32_t bucket = ts_attention_bucket(&t, first + own);
  if (own > last || (own && ts_attention_bucket(&t, first + own - 1) == bucket))
    return;
  float sum = m.sum[own];
  for (int k = own + 1;
       k <= last && ts_attention_bucket(&t, first + k) == bucket; k++)
    sum += m.sum[k];
  part[bucket] += sum;
}

/* The least or the largest X of all threads. */
static __device__ int32_t ts_block_edge(ts_attention_shared &m, int32_t x,
                                        bool least) {
  int32_t *found = (int32_t *)m.sum;
  for (int by = 16; by > 0; by /= 2) {
    const int32_t y = __shfl_xor_sync(0xffffffff, x, by);
    x = least ? min(x, y) : max(x, y);
  }
  __syncthreads();
  if (threadIdx.x % 32 == 0) found[threadIdx.x / 32] = x;
  __syncthreads();
  for (int k = 0; k < TS_ATTENTION_THREADS / 32; k++)
    x = least ? min(x, found[k]) : max(x, found[k]);
  return x;
}

/* Adds the tile's gradients of scores to PART, one bucket of time after the
 * other, of which a tile has few; DX[r][c]: of key J + r, query I + c. */
static __device__ void ts_attention_time_grad(const ts_attention_args &t,
                                              const ts_attention_head &d,
                                              ts_attention_shared &m, int32_t i,
                                              int32_t j, const float dx[4][4],
                                              float *part) {
  int32_t at[4][4], least = t.n_times, most = -1;
#pragma unroll
  for (int e = 0; e < 16; e++) {
    const int32_t own_i = i + ts_attention_column() + e % 4;
    const int32_t own_j = j + ts_attention_row() + e / 4;
    const int32_t b =
        d.sees(t, own_i, own_j) ? ts_attention_time_of(t, d, own_i, own_j) : -1;
    at[e / 4][e % 4] = b;
    if (b >= 0) least = min(least, b);
    most = max(most, b);
  }
  least = ts_block_edge(m, least, true);
  most = ts_block_edge(m, most, false);
  for (int32_t b = least; b <= most; b++) {
    float sum = 0;
#pragma unroll
    for (int e = 0; e < 16; e++)
      if (at[e / 4][e % 4] == b) sum += dx[e / 4][e % 4];
    for (int by = 16; by > 0; by /= 2)
      sum += __shfl_xor_sync(0xffffffff, sum, by);
    __syncthreads();
    if (threadIdx.x % 32 == 0) m.sum[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x) continue;
    for (int k = 1; k < TS_ATTENTION_THREADS / 32; k++) sum += m.sum[k];
    part[b] += sum;
  }
}

template <bool timed>
static __device__ void
ts_attention_dk_block(const ts_attention_args &t, const ts_attention_head &d,
                      int32_t j, int col, ts_attention_shared &m) {
  const ts_attention_rows k = d.rows(t.k, t.k_stride, t.dim, j);
  const ts_attention_rows v = d.rows(t.v, t.v_stride, t.v_dim, j);
  const int64_t at = ts_attention_part(d.s, d.begin, TS_ATTENTION_TILE) +
                     j / TS_ATTENTION_TILE;
  float *part =
      ts_attention_parts(&t) + (at * t.n_heads + d.h) * ts_attention_biases(&t);
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
    const uint32_t kept = ts_attention_kept(t, d, i + ts_attention_column(),
                                            j + ts_attention_row());
#pragma unroll
    for (int c = 0; c < 4; c++) {
      const int32_t own = i + ts_attention_column() + c;
      const ts_attention_query query = ts_attention_query_of(t, d, own);
#pragma unroll
      for (int r = 0; r < 4; r++)
        ts_attention_grad_of<timed>(
            t, d, query, own, j + ts_attention_row() + r,
            kept >> (4 * r + c) & 1 ? keep : 0.0f, &x[r][c], &dx[r][c]);
    }
    ts_attention_put(m, x);
    ts_attention_times(dv, m, g, col);
    ts_attention_put(m, dx);
    ts_attention_times(dk, m, q, col);
    if (t.dbias && col == 0) ts_attention_bias_grad(t, m, i - j, part);
    if (timed && t.dtime_bias && col == 0)
      ts_attention_time_grad(t, d, m, i, j, dx, part + ts_attention_times(&t));
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

ts_err ts_cuda_attention_grad(const ts_attention_args *t) {
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
    TS_DO(t->time_bias ? ts_attention_launch_grad<true>(t, queries, keys)
                       : ts_attention_launch_grad<false>(t, queries, keys));
  }
  return biases ? ts_attention_sum_parts(t, parts) : TS_OK;
}

ts_err ts_cuda_attention_half_grad(const ts_attention_args *t) {
  return ts_cuda_attention_grad(t);
}
