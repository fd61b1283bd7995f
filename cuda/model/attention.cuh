/* attention.cuh - the tiles of attention: 64 queries by 64 keys, by a block of
 * 256 threads with 4 x 4 of its numbers each.
 *
 * A factor of a product lies in shared memory by k, then row or column, so that
 * a thread reads its four at once; rows of more than 32 columns come one piece
 * after the other. */
#pragma once

#include <float.h>

#include "cuda/runtime/cuda_impl.h"
#include "cuda/sparse/rounding.cuh"

extern "C" {
#include "model/attention.h"
}

enum {
  TS_ATTENTION_THREADS = 256,
  TS_ATTENTION_TILE = 64,
  TS_ATTENTION_STEP = 32, /* of k */
  TS_ATTENTION_PITCH = 68 /* 16 bytes more: fewer turns for banks */
};

typedef float ts_attention_line[TS_ATTENTION_PITCH];

struct ts_attention_shared {
  ts_attention_line a[TS_ATTENTION_STEP], b[TS_ATTENTION_STEP];
  ts_attention_line p[TS_ATTENTION_TILE];
  float sum[2 * TS_ATTENTION_TILE];
};

static __device__ const float ts_attention_edges[] = {TS_TIME_EDGES};

/* This thread's four rows, four columns. */
static __device__ __forceinline__ int ts_attention_row() {
  return (int)threadIdx.x / 16 * 4;
}
static __device__ __forceinline__ int ts_attention_column() {
  return (int)threadIdx.x % 16 * 4;
}

/* N rows of DIM columns; beyond are zeros. */
struct ts_attention_rows {
  const float *x;
  int64_t stride;
  int32_t n, dim;
  __device__ __forceinline__ float at(int r, int c) const {
    return r < n && c < dim ? __ldg(x + r * stride + c) : 0.0f;
  }
};

/* A head of a sequence. */
struct ts_attention_head {
  int64_t s, begin;
  int32_t h, length;
  float norm;
  __device__ ts_attention_head(const ts_attention_args &t, int64_t pair) {
    s = pair / t.n_heads;
    h = (int32_t)(pair % t.n_heads);
    begin = t.offsets[s];
    length = (int32_t)(t.offsets[s + 1] - begin);
    norm = 1 / (t.norm != 0 ? t.norm : (float)length);
  }
  /* A tile of rows from I on of an array with so many columns for a head. */
  __device__ __forceinline__ ts_attention_rows rows(const float *x,
                                                    int64_t stride, int32_t dim,
                                                    int32_t i) const {
    return {x + (begin + i) * stride + (int64_t)h * dim, stride,
            min((int32_t)TS_ATTENTION_TILE, length - i), dim};
  }
  __device__ __forceinline__ int64_t at(int64_t stride, int32_t dim,
                                        int32_t i) const {
    return (begin + i) * stride + (int64_t)h * dim;
  }
  /* Query I looks at the keys below that, as ts_attention_sees has it, in 32
   * bits: registers are short. */
  __device__ __forceinline__ int32_t limit(const ts_attention_args &t,
                                           int32_t i) const {
    if (i >= length) return 0;
    return t.causal && i >= t.context ? i + 1 : length;
  }
  __device__ __forceinline__ bool sees(const ts_attention_args &t, int32_t i,
                                       int32_t j) const {
    return j < limit(t, i);
  }
  /* Queries of the tile that begins with I look at keys below. */
  __device__ __forceinline__ int32_t end(const ts_attention_args &t,
                                         int32_t i) const {
    return ts_attention_is_open(&t, i)
               ? length
               : min(length, i + (int32_t)TS_ATTENTION_TILE);
  }
};

/* Bucket of the time from key J to query I. */
static __device__ __forceinline__ int32_t
ts_attention_time_of(const ts_attention_args &t, const ts_attention_head &d,
                     int32_t i, int32_t j) {
  return ts_attention_time(&t, ts_attention_edges, d.begin + i, d.begin + j);
}

/* By the units that GPUs have for them: expf and a division are several times
 * as many instructions. */
#define TS_LOG2E 1.4426950408889634f
static __device__ __forceinline__ float ts_attention_sigmoid(float x) {
  return __fdividef(1, 1 + exp2f(-TS_LOG2E * x));
}

/* The largest score of none: finite, times log2 e, too. */
#define TS_ATTENTION_LEAST (-FLT_MAX / 2)

/* x_ij from q_i . k_j, of all pairs that EACH(f) calls f(x, i, j, whether i
 * looks at j) for: what there is of biases is asked once.  TIMED: there are
 * those by time, for which registers would not do where two blocks are to share
 * a multiprocessor. */
template <bool timed, class Each>
static __device__ __forceinline__ void
ts_attention_scores(const ts_attention_args &t, const ts_attention_head &d,
                    Each each) {
  each([&](float &x, int32_t, int32_t, bool) { x *= t.scale; });
  if (t.bias) {
    const float *bias = t.bias + d.h * ts_attention_buckets(&t);
    each([&](float &x, int32_t i, int32_t j, bool) {
      x += __ldg(bias + ts_attention_bucket(&t, i - j));
    });
  }
  if (timed) {
    const float *bias = t.time_bias + (int64_t)d.h * t.n_times;
    each([&](float &x, int32_t i, int32_t j, bool sees) {
      if (sees) x += __ldg(bias + ts_attention_time_of(t, d, i, j));
    });
  }
  if (t.slopes) {
    const float slope = __ldg(t.slopes + d.h);
    each([&](float &x, int32_t i, int32_t j, bool) {
      x -= slope * fabsf((float)(i - j));
    });
  }
}

/* Forward: then p of silu; what softmax takes exp of, minus infinity where i
 * does not look at j. */
template <bool timed, class Each>
static __device__ __forceinline__ void
ts_attention_weights(const ts_attention_args &t, const ts_attention_head &d,
                     Each each) {
  ts_attention_scores<timed>(t, d, each);
  if (t.kind == TS_ATTENTION_SOFTMAX)
    each([&](float &x, int32_t, int32_t, bool sees) {
      x = sees ? x : -INFINITY;
    });
  else
    each([&](float &x, int32_t, int32_t, bool sees) {
      x = sees ? d.norm * x * ts_attention_sigmoid(x) : 0.0f;
    });
}

/* A row of scores x(c), c < N, that LANES lanes share, becomes exp(x - most so
 * far), and o(c) what it is times. */
template <int lanes, int n, class X, class O>
static __device__ __forceinline__ void ts_soft_row(X x, O o, float *most,
                                                   float *sum) {
  float now = *most, own = 0;
#pragma unroll
  for (int c = 0; c < n; c++) now = fmaxf(now, x(c));
  for (int by = lanes / 2; by > 0; by /= 2)
    now = fmaxf(now, __shfl_xor_sync(0xffffffff, now, by));
  /* Differences first: of the largest they are 0, whatever its size.  One
   * product less would leave what -log2(e) now was rounded by, and a sum would
   * drift by that with each tile. */
  const float factor = exp2f((*most - now) * TS_LOG2E);
#pragma unroll
  for (int c = 0; c < n; c++) {
    x(c) = exp2f((x(c) - now) * TS_LOG2E);
    own += x(c);
    o(c) *= factor;
  }
  for (int by = lanes / 2; by > 0; by /= 2)
    own += __shfl_xor_sync(0xffffffff, own, by);
  *sum = fmaf(*sum, factor, own);
  *most = now;
}

/* Bit 4 k + r, k < N, r < 4: whether the pair of query I + k BY_I + r and key
 * J + k BY_J is kept; I and BY_I are multiples of 4. */
template <int n>
static __device__ __forceinline__ uint32_t
ts_attention_kept(const ts_attention_args &t, const ts_attention_head &d,
                  int32_t i, int32_t j, int32_t by_i, int32_t by_j) {
  const uint64_t key = (uint64_t)t.key[1] << 32 | t.key[0];
  uint32_t kept = 0;
  if (t.drop == 0) return 0xffffffff;
#pragma unroll 4
  for (int k = 0; k < n; k++) {
    uint32_t word[4];
    ts_philox_words(word, ts_attention_counter(&t, d.s, d.h),
                    (uint32_t)(i + k * by_i) / 4, (uint32_t)(j + k * by_j),
                    key);
#pragma unroll
    for (int r = 0; r < 4; r++)
      if ((float)(word[r] >> 8) * 0x1p-24f >= t.drop) kept |= 1u << (4 * k + r);
  }
  return kept;
}

/* sum += over STEP k of A[k][row] B[k][column]. */
static __device__ __forceinline__ void
ts_attention_product(float sum[4][4], const ts_attention_line *a,
                     const ts_attention_line *b) {
#pragma unroll 4
  for (int k = 0; k < TS_ATTENTION_STEP; k++) {
    const float4 x = *(const float4 *)(a[k] + ts_attention_row());
    const float4 y = *(const float4 *)(b[k] + ts_attention_column());
    const float xs[4] = {x.x, x.y, x.z, x.w}, ys[4] = {y.x, y.y, y.z, y.w};
#pragma unroll
    for (int r = 0; r < 4; r++)
#pragma unroll
      for (int c = 0; c < 4; c++) sum[r][c] = fmaf(xs[r], ys[c], sum[r][c]);
  }
}

/* to[k][r] = column COL + k of row r. */
static __device__ __forceinline__ void
ts_attention_turn(ts_attention_line *to, const ts_attention_rows &x, int col) {
#pragma unroll 2
  for (int e = (int)threadIdx.x; e < TS_ATTENTION_TILE * TS_ATTENTION_STEP;
       e += TS_ATTENTION_THREADS) {
    const int r = e / TS_ATTENTION_STEP, k = e % TS_ATTENTION_STEP;
    to[k][r] = x.at(r, col + k);
  }
}

/* sum = the dot products of rows of X with rows of Y. */
static __device__ __forceinline__ void
ts_attention_dots(float sum[4][4], ts_attention_shared &m,
                  const ts_attention_rows &x, const ts_attention_rows &y) {
#pragma unroll
  for (int r = 0; r < 4; r++)
#pragma unroll
    for (int c = 0; c < 4; c++) sum[r][c] = 0;
  for (int col = 0; col < x.dim; col += TS_ATTENTION_STEP) {
    __syncthreads();
    ts_attention_turn(m.a, x, col);
    ts_attention_turn(m.b, y, col);
    __syncthreads();
    ts_attention_product(sum, m.a, m.b);
  }
}

/* A tile's numbers, of k by rows: for what they are factors of. */
static __device__ __forceinline__ void ts_attention_put(ts_attention_shared &m,
                                                        const float x[4][4]) {
  __syncthreads();
#pragma unroll
  for (int c = 0; c < 4; c++)
    *(float4 *)(m.p[ts_attention_column() + c] + ts_attention_row()) =
        make_float4(x[0][c], x[1][c], x[2][c], x[3][c]);
}

/* sum += over k of m.p[k][row] times columns from COL on of Y's row k. */
static __device__ __forceinline__ void
ts_attention_times(float sum[4][4], ts_attention_shared &m,
                   const ts_attention_rows &y, int col) {
  for (int row = 0; row < TS_ATTENTION_TILE; row += TS_ATTENTION_STEP) {
    __syncthreads();
#pragma unroll 4
    for (int e = (int)threadIdx.x; e < TS_ATTENTION_TILE * TS_ATTENTION_STEP;
         e += TS_ATTENTION_THREADS) {
      const int k = e / TS_ATTENTION_TILE, c = e % TS_ATTENTION_TILE;
      m.b[k][c] = y.at(row + k, col + c);
    }
    __syncthreads();
    ts_attention_product(sum, m.p + row, m.b);
  }
}

/* Columns from COL on of this thread's rows of the N at X, times their
 * FACTOR. */
static __device__ __forceinline__ void
ts_attention_store(float *x, int64_t stride, int32_t n, int32_t dim, int col,
                   const float sum[4][4], const float factor[4]) {
#pragma unroll
  for (int r = 0; r < 4; r++)
#pragma unroll
    for (int c = 0; c < 4; c++) {
      const int row = ts_attention_row() + r,
                at = col + ts_attention_column() + c;
      if (row < n && at < dim) x[row * stride + at] = factor[r] * sum[r][c];
    }
}

/* Tasks: TILES of each head of each sequence, PIECES of its columns each. */
struct ts_attention_tasks {
  int64_t n, tiles, pieces;
};

static inline ts_attention_tasks
ts_attention_tasks_of(const ts_attention_args *t, int32_t columns) {
  ts_attention_tasks w = {};
  w.tiles = ts_ceil_div(t->max_length, TS_ATTENTION_TILE);
  w.pieces = ts_ceil_div(columns, TS_ATTENTION_TILE);
  w.n = t->n_sequences * t->n_heads * w.tiles * w.pieces;
  return w;
}

/* body(head, first row of the tile, first column of the piece) for this block's
 * tasks. */
template <class Body>
static __device__ __forceinline__ void
ts_attention_each(const ts_attention_args &t, const ts_attention_tasks &w,
                  Body body) {
  for (int64_t k = blockIdx.x; k < w.n; k += gridDim.x) {
    const int64_t tile = k / w.pieces;
    const ts_attention_head d(t, tile / w.tiles);
    const int64_t row = tile % w.tiles * TS_ATTENTION_TILE;
    if (row < d.length) body(d, row, (int)(k % w.pieces) * TS_ATTENTION_TILE);
  }
}

static inline ts_cuda_shape
ts_attention_shape(const ts_attention_tasks &w,
                   unsigned threads = TS_ATTENTION_THREADS) {
  return {ts_grid(w.n, 1, TS_GRID_X_MAX), threads};
}
