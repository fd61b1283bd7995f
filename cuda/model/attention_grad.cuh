/* attention_grad.cuh - what attention's gradients share, of f32 and of bf16:
 * the gradient of a score, and the sums of these for biases. */
#pragma once

#include "cuda/model/attention.cuh"

/* The numbers of a query that the gradients of its scores are made with. */
struct ts_attention_query {
  float less, dot; /* of softmax alone: -lse in base 2; d_o . o */
  int32_t limit;
};

static __device__ __forceinline__ ts_attention_query ts_attention_query_of(
    const ts_attention_args &t, const ts_attention_head &d, int32_t i) {
  const int64_t at = (d.begin + i) * t.n_heads + d.h;
  const int32_t limit = d.limit(t, i);
  if (t.kind != TS_ATTENTION_SOFTMAX || i >= d.length) return {0, 0, limit};
  return {-TS_LOG2E * __ldg(t.lse + at), ((const float *)t.work)[at], limit};
}

/* X, q . k, becomes m p, and DX, the gradient of m p, becomes that of the
 * score; of all pairs that EACH(f) calls f(x, dx, i, j, query, m) for.  Pairs
 * that don't count get 0, whatever their products are. */
template <bool timed, class Each>
static __device__ __forceinline__ void
ts_attention_grads(const ts_attention_args &t, const ts_attention_head &d,
                   Each each) {
  typedef const ts_attention_query &of;
  ts_attention_scores<timed>(t, d, [&](auto f) {
    each([&](float &x, float &, int32_t i, int32_t j, of q, float) {
      f(x, i, j, j < q.limit);
    });
  });
  if (t.kind == TS_ATTENTION_SOFTMAX)
    each([&](float &x, float &dx, int32_t, int32_t j, of q, float m) {
      const float p = j < q.limit ? exp2f(fmaf(x, TS_LOG2E, q.less)) : 0.0f;
      x = m * p;
      dx = j < q.limit ? p * (m * dx - q.dot) : 0.0f;
    });
  else
    each([&](float &x, float &dx, int32_t, int32_t j, of q, float m) {
      const float y = x, f = ts_attention_sigmoid(y);
      const float by = m * d.norm * f;
      x = j < q.limit ? by * y : 0.0f;
      dx = j < q.limit ? dx * by * (1 + y * (1 - f)) : 0.0f;
    });
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

/* Adds the sums of diagonals of DX, by ROWS queries and the keys of a tile, to
 * PART, those of one bucket by the first of them; the first query is BY behind
 * the first key. */
template <int rows>
static __device__ void ts_attention_distance_grad(const ts_attention_args &t,
                                                  const ts_attention_line *dx,
                                                  float *sums, int32_t by,
                                                  float *part) {
  const int own = (int)threadIdx.x, last = rows + TS_ATTENTION_TILE - 2;
  const int32_t first = by - (TS_ATTENTION_TILE - 1); /* distance 0's */
  __syncthreads();
  if (own <= last) {
    float sum = 0;
    for (int i = 0; i < rows; i++) {
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
template <int threads, int rows>
static __device__ void
ts_attention_time_grad(const ts_attention_args &t, const ts_attention_head &d,
                       const ts_attention_line *dx, float *sums, int32_t i,
                       int32_t j, float *part) {
  enum { EACH = rows * TS_ATTENTION_TILE / threads };
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

/* Adds the gradients of scores DX, by ROWS queries from I on and the keys from
 * J on, to PART; SUMS: shared memory for the rows of two tiles. */
template <int threads, int rows, bool timed>
static __device__ __forceinline__ void
ts_attention_bias_grads(const ts_attention_args &t, const ts_attention_head &d,
                        const ts_attention_line *dx, float *sums, int32_t i,
                        int32_t j, float *part) {
  if (t.dbias) ts_attention_distance_grad<rows>(t, dx, sums, i - j, part);
  if (timed && t.dtime_bias)
    ts_attention_time_grad<threads, rows>(t, d, dx, sums, i, j,
                                          part + ts_attention_times(&t));
}

/* ---- launches ------------------------------------------------------------ */

/* Writes dq, dk, dv and parts of biases' gradients. */
typedef ts_err (*ts_attention_launch)(const ts_attention_args *,
                                      const ts_attention_tasks &queries,
                                      const ts_attention_tasks &keys);
/* All of a backward pass by kernels of LAUNCH. */
ts_err ts_attention_grad_by(const ts_attention_args *, ts_attention_launch);
