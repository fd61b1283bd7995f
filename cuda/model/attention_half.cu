/* attention_half.cu - attention forward with products of bf16: a block has 64
 * queries and goes over the keys, as attention.cu does; four lanes have a row,
 * whose p go from one product to the next in registers. */
#include "cuda/model/attention_half.cuh"

struct ts_half_shared {
  ts_half_line q[TS_ATTENTION_TILE], k[TS_ATTENTION_TILE], v[TS_ATTENTION_TILE];
};

template <bool timed>
static __device__ void ts_half_block(const ts_attention_args &t,
                                     const ts_attention_head &d, int32_t i,
                                     int col, ts_half_shared &m) {
  const bool soft = t.kind == TS_ATTENTION_SOFTMAX;
  const int32_t end = d.end(t, i), row = i + ts_half_row();
  const int32_t limit[2] = {d.limit(t, row), d.limit(t, row + 8)};
  const ts_attention_rows q = d.rows(t.q, t.q_stride, t.dim, i);
  float o[8][4] = {}, most[2] = {TS_ATTENTION_LEAST, TS_ATTENTION_LEAST},
        sum[2] = {}, factor[2];
  for (int32_t j = 0; j < end; j += TS_ATTENTION_TILE) {
    const int32_t column = j + ts_half_column();
    float x[8][4];
    __syncthreads();
    ts_half_fill<TS_ATTENTION_TILE>(m.v, d.rows(t.v, t.v_stride, t.v_dim, j),
                                    col);
    ts_half_dots<8>(x, m.q, m.k, q, d.rows(t.k, t.k_stride, t.dim, j), j > 0);
    ts_attention_weights<timed>(t, d, [&](auto f) {
#pragma unroll
      for (int k = 0; k < 32; k++) {
        const int r = k % 4 / 2, own = column + 8 * (k / 4) + k % 2;
        f(x[k / 4][k % 4], row + 8 * r, own, own < limit[r]);
      }
    });
#pragma unroll
    for (int r = 0; r < 2; r++)
      if (soft)
        ts_soft_row<4, 16>(
            [&](int c) -> float & { return x[c / 2][2 * r + c % 2]; },
            [&](int c) -> float & { return o[c / 2][2 * r + c % 2]; }, &most[r],
            &sum[r]);
    if (t.drop > 0) {
      const ts_half_kept kept = ts_half_kept_of<false, 8>(t, d, i, j);
      const float keep = 1 / (1 - t.drop);
#pragma unroll
      for (int k = 0; k < 32; k++)
        x[k / 4][k % 4] *= kept.is(k / 4, k % 4) ? keep : 0.0f;
    }
    ts_half_times<8>(o, x, m.v, t.v_dim - col);
  }
#pragma unroll
  for (int r = 0; r < 2; r++) {
    const int32_t own = row + 8 * r;
    factor[r] = soft ? 1 / sum[r] : 1.0f;
    if (soft && col == 0 && ts_half_column() == 0 && own < d.length)
      t.lse[(d.begin + own) * t.n_heads + d.h] = most[r] + logf(sum[r]);
  }
  ts_half_store(t.o + d.at(t.o_stride, t.v_dim, i), t.o_stride, d.length - i,
                t.v_dim, col, o, factor);
}

template <bool timed>
static __global__ void __launch_bounds__(TS_HALF_THREADS, timed ? 2 : 3)
    ts_half_attention_kernel(const __grid_constant__ ts_attention_args t,
                             const __grid_constant__ ts_attention_tasks w) {
  __shared__ ts_half_shared m;
  ts_attention_each(t, w, [&](const ts_attention_head &d, int32_t i, int col) {
    ts_half_block<timed>(t, d, i, col, m);
  });
}

ts_err ts_cuda_attention_half(const ts_attention_args *t) {
  const ts_attention_tasks w = ts_attention_tasks_of(t, t->v_dim);
  const ts_cuda_shape shape = ts_attention_shape(w, TS_HALF_THREADS);
  if (w.n == 0) return TS_OK;
  return t->time_bias
             ? TS_CUDA_LAUNCH(ts_half_attention_kernel<true>, shape, *t, w)
             : TS_CUDA_LAUNCH(ts_half_attention_kernel<false>, shape, *t, w);
}
