/* attention_grad.cuh - what attention's gradients share, of f32 and of bf16:
 * the gradient of a score, and the sums of these for biases. */
#pragma once

#include "cuda/model/attention.cuh"

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

/* ---- gradients of biases ------------------------------------------------- */

/* Biases of the keys from J on. */
static __device__ __forceinline__ float *
ts_attention_part_of(const ts_attention_args &t, const ts_attention_head &d,
                     int32_t j) {
  const int64_t at = ts_attention_part(d.s, d.begin, TS_ATTENTION_TILE) +
                     j / TS_ATTENTION_TILE;
  return ts_attention_parts(&t) +
         (at * t.n_heads + d.h) * ts_attention_biases(&t);
}

/* Adds the sums of diagonals of DX to PART, those of one bucket by the first of
 * them; the tile's first query is BY behind its first key. */
static __device__ void ts_attention_distance_grad(const ts_attention_args &t,
                                                  const ts_attention_line *dx,
                                                  float *sums, int32_t by,
                                                  float *part) {
  const int own = (int)threadIdx.x, last = 2 * TS_ATTENTION_TILE - 2;
  const int32_t first = by - (TS_ATTENTION_TILE - 1); /* distance 0's */
  __syncthreads();
  if (own <= last) {
    float sum = 0;
    for (int i = 0; i < TS_ATTENTION_TILE; i++) {
      const int j = i - (own - (TS_ATTENTION_TILE - 1));
      if (j >= 0 && j < TS_ATTENTION_TILE) sum += dx[i][j];
    }
    sums[own] = sum;
  }
  __syncthreads();
  const int32_t bucket = ts_attention_bucket(&t, first + own);
  if (own > last || (own && ts_attention_bucket(&t, first + own - 1) == bucket))
    return;
  float sum = sums[own];
  for (int k = own + 1;
       k <= last && ts_attention_bucket(&t, first + k) == bucket; k++)
    sum += sums[k];
  part[bucket] += sum;
}

/* The least or the largest X of all threads. */
template <int threads>
static __device__ int32_t ts_block_edge(float *sums, int32_t x, bool least) {
  int32_t *found = (int32_t *)sums;
  for (int by = 16; by > 0; by /= 2) {
    const int32_t y = __shfl_xor_sync(0xffffffff, x, by);
    x = least ? min(x, y) : max(x, y);
  }
  __syncthreads();
  if (threadIdx.x % 32 == 0) found[threadIdx.x / 32] = x;
  __syncthreads();
  for (int k = 0; k < threads / 32; k++)
    x = least ? min(x, found[k]) : max(x, found[k]);
  return x;
}

/* Adds DX, of query I and key J on, to PART, one bucket of time after the
 * other, of which a tile has few. */
template <int threads>
static __device__ void
ts_attention_time_grad(const ts_attention_args &t, const ts_attention_head &d,
                       const ts_attention_line *dx, float *sums, int32_t i,
                       int32_t j, float *part) {
  enum { EACH = TS_ATTENTION_TILE * TS_ATTENTION_TILE / threads };
  const int row = (int)threadIdx.x / TS_ATTENTION_TILE,
            column = (int)threadIdx.x % TS_ATTENTION_TILE;
  const int step = threads / TS_ATTENTION_TILE;
  int32_t at[EACH], least = t.n_times, most = -1;
#pragma unroll
  for (int e = 0; e < EACH; e++) {
    const int32_t own_i = i + row + e * step, own_j = j + column;
    const int32_t b =
        d.sees(t, own_i, own_j) ? ts_attention_time_of(t, d, own_i, own_j) : -1;
    at[e] = b;
    if (b >= 0) least = min(least, b);
    most = max(most, b);
  }
  least = ts_block_edge<threads>(sums, least, true);
  most = ts_block_edge<threads>(sums, most, false);
  for (int32_t b = least; b <= most; b++) {
    float sum = 0;
#pragma unroll
    for (int e = 0; e < EACH; e++)
      if (at[e] == b) sum += dx[row + e * step][column];
    for (int by = 16; by > 0; by /= 2)
      sum += __shfl_xor_sync(0xffffffff, sum, by);
    __syncthreads();
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x) continue;
    for (int k = 1; k < threads / 32; k++) sum += sums[k];
    part[b] += sum;
  }
}

/* Adds a tile's gradients of scores DX, by query from I on and key from J on,
 * to PART; SUMS: shared memory for 2 tiles' rows. */
template <int threads, bool timed>
static __device__ __forceinline__ void
ts_attention_bias_grads(const ts_attention_args &t, const ts_attention_head &d,
                        const ts_attention_line *dx, float *sums, int32_t i,
                        int32_t j, float *part) {
  if (t.dbias) ts_attention_distance_grad(t, dx, sums, i - j, part);
  if (timed && t.dtime_bias)
    ts_attention_time_grad<threads>(t, d, dx, sums, i, j,
                                    part + ts_attention_times(&t));
}

/* ---- launches ------------------------------------------------------------ */

/* Writes dq, dk, dv and parts of biases' gradients. */
typedef ts_err (*ts_attention_launch)(const ts_attention_args *,
                                      const ts_attention_tasks &queries,
                                      const ts_attention_tasks &keys);
/* All of a backward pass by kernels of LAUNCH. */
ts_err ts_attention_grad_by(const ts_attention_args *, ts_attention_launch);
