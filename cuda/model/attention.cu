/* attention.cu - attention of jagged sequences, forward (model/kernels.h): a
 * block has 64 queries and goes over the keys, with the largest score, the sum
 * and o so far in registers; sixteen threads have a row. */
#include "cuda/model/attention.cuh"

template <bool timed>
static __device__ void ts_attention_block(const ts_attention_args &t,
                                          const ts_attention_head &d, int32_t i,
                                          int col, ts_attention_shared &m) {
  const bool soft = t.kind == TS_ATTENTION_SOFTMAX;
  const int32_t end = d.end(t, i);
  const ts_attention_rows q = d.rows(t.q, t.q_stride, t.dim, i);
  float o[4][4] = {}, most[4], sum[4] = {}, factor[4];
#pragma unroll
  for (int r = 0; r < 4; r++) most[r] = TS_ATTENTION_LEAST;
  for (int32_t j = 0; j < end; j += TS_ATTENTION_TILE) {
    float x[4][4];
    ts_attention_dots(x, m, q, d.rows(t.k, t.k_stride, t.dim, j));
    ts_attention_weights<timed>(t, d, [&](auto f) {
#pragma unroll
      for (int e = 0; e < 16; e++) {
        const int32_t own_i = i + ts_attention_row() + e / 4;
        const int32_t own_j = j + ts_attention_column() + e % 4;
        f(x[e / 4][e % 4], own_i, own_j, d.sees(t, own_i, own_j));
      }
    });
#pragma unroll
    for (int r = 0; r < 4; r++)
      if (soft)
        ts_soft_row<16, 4>([&](int c) -> float & { return x[r][c]; },
                           [&](int c) -> float & { return o[r][c]; }, &most[r],
                           &sum[r]);
    if (t.drop > 0) {
      const uint32_t kept = ts_attention_kept<4>(
          t, d, i + ts_attention_row(), j + ts_attention_column(), 0, 1);
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
