/* attention.cu - attention of jagged sequences, forward (model/kernels.h): a
 * block has 64 queries and goes over the keys, with the largest score, the sum
 * and o so far in registers; sixteen threads have a row. */
#include "cuda/model/attention.cuh"

/* Reductions over the 16 threads that share a row. */
static __device__ __forceinline__ float ts_row_sum(float x) {
  for (int by = 8; by > 0; by /= 2) x += __shfl_xor_sync(0xffffffff, x, by);
  return x;
}
static __device__ __forceinline__ float ts_row_most(float x) {
  for (int by = 8; by > 0; by /= 2)
    x = fmaxf(x, __shfl_xor_sync(0xffffffff, x, by));
  return x;
}

/* Row R of scores becomes exp(x - most so far), O's what it is times. */
static __device__ __forceinline__ void ts_soft_row(float x[4], float o[4],
                                                   float *most, float *sum) {
  float now = *most, own = 0;
#pragma unroll
  for (int c = 0; c < 4; c++) now = fmaxf(now, x[c]);
  now = ts_row_most(now);
  const float factor = expf(*most - now);
#pragma unroll
  for (int c = 0; c < 4; c++) {
    x[c] = expf(x[c] - now);
    own += x[c];
    o[c] *= factor;
  }
  *sum = fmaf(*sum, factor, ts_row_sum(own));
  *most = now;
}

template <bool timed>
static __device__ void ts_attention_block(const ts_attention_args &t,
                                          const ts_attention_head &d, int32_t i,
                                          int col, ts_attention_shared &m) {
  const bool soft = t.kind == TS_ATTENTION_SOFTMAX;
  const int32_t end =
      ts_attention_is_open(&t, i) ? d.length
                                  : min(d.length, i + TS_ATTENTION_TILE);
  const ts_attention_rows q = d.rows(t.q, t.q_stride, t.dim, i);
  float o[4][4] = {}, most[4], sum[4] = {}, factor[4];
#pragma unroll
  for (int r = 0; r < 4; r++) most[r] = -FLT_MAX;
  for (int32_t j = 0; j < end; j += TS_ATTENTION_TILE) {
    float x[4][4];
    ts_attention_dots(x, m, q, d.rows(t.k, t.k_stride, t.dim, j));
#pragma unroll
    for (int r = 0; r < 4; r++) {
#pragma unroll
      for (int c = 0; c < 4; c++) {
        const int32_t own_i = i + ts_attention_row() + r;
        const int32_t own_j = j + ts_attention_column() + c;
        const bool sees = d.sees(t, own_i, own_j);
        const float y =
            sees ? ts_attention_score<timed>(t, d, x[r][c], own_i, own_j)
                 : 0.0f;
        x[r][c] = soft ? (sees ? y : -INFINITY) : d.norm * y / (1 + expf(-y));
      }
      if (soft) ts_soft_row(x[r], o[r], &most[r], &sum[r]);
    }
    if (t.drop > 0) {
      const uint32_t kept = ts_attention_kept(t, d, i + ts_attention_row(),
                                              j + ts_attention_column());
      const float keep = 1 / (1 - t.drop);
#pragma unroll
      for (int e = 0; e < 16; e++)
        x[e % 4][e / 4] *= kept >> e & 1 ? keep : 0.0f;
    }
    ts_attention_put(m, x);
    ts_attention_times(o, m, d.rows(t.v, t.v_stride, t.v_dim, j), col);
  }
#pragma unroll
  for (int r = 0; r < 4; r++) {
    const int32_t own = i + ts_attention_row() + r;
    factor[r] = soft ? 1 / sum[r] : 1.0f;
    if (soft && col == 0 && ts_attention_column() == 0 && own < d.length)
      t.lse[(d.begin + own) * t.n_heads + d.h] = most[r] + logf(sum[r]);
  }
  ts_attention_store(t.o + d.at(t.o_stride, t.v_dim, i), t.o_stride,
                     d.length - i, t.v_dim, col, o, factor);
}

template <bool timed>
static __global__ void __launch_bounds__(TS_ATTENTION_THREADS, timed ? 1 : 2)
    ts_attention_kernel(const __grid_constant__ ts_attention_args t,
                        const __grid_constant__ ts_attention_tasks w) {
  __shared__ ts_attention_shared m;
  ts_attention_each(t, w, [&](const ts_attention_head &d, int32_t i, int col) {
    ts_attention_block<timed>(t, d, i, col, m);
  });
}

ts_err ts_cuda_attention(const ts_attention_args *t) {
  const ts_attention_tasks w = ts_attention_tasks_of(t, t->v_dim);
  if (w.n == 0) return TS_OK;
  return t->time_bias ? TS_CUDA_LAUNCH(ts_attention_kernel<true>,
                                       ts_attention_shape(w), *t, w)
                      : TS_CUDA_LAUNCH(ts_attention_kernel<false>,
                                       ts_attention_shape(w), *t, w);
}

ts_err ts_cuda_attention_half(const ts_attention_args *t) {
  return ts_cuda_attention(t);
}
