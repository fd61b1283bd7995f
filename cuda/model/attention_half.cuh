/* attention_half.cuh - attention's tiles of 64 queries by 64 keys with products
 * of bf16, added in f32 (cuda/dense/half.cuh): a block has 4 warps, and a warp
 * 16 of the tile's rows.
 *
 * Arrays are rounded on their way to shared memory, where a tile is rows of up
 * to 64 columns; wider heads come one piece after the other.  A lane's numbers
 * of a tile are x[n][e]: row ts_half_row + 8 (e / 2), column ts_half_column +
 * 8 n + e % 2.  They are factors of the next product where they are. */
#pragma once

#include "cuda/dense/half.cuh"
#include "cuda/model/attention.cuh"

enum {
  TS_HALF_THREADS = 128,
  TS_HALF_PITCH = 36 /* words, 4 more: 8 rows lie in banks of their own */
};

/* Pairs of bf16. */
struct __align__(16) ts_half_line {
  uint32_t x[TS_HALF_PITCH];
};

/* This lane's first row and column. */
static __device__ __forceinline__ int ts_half_row() {
  return (int)threadIdx.x / 32 * 16 + (int)threadIdx.x % 32 / 4;
}
static __device__ __forceinline__ int ts_half_column() {
  return (int)threadIdx.x % 4 * 2;
}

/* Columns of X from COL on to a tile of ROWS, and zeros beside them as far as
 * products go.  BOTH: a pair can be read at once.  A few loads of a thread are
 * under way before it waits for them. */
template <int rows, bool both>
static __device__ __forceinline__ void
ts_half_fill_by(ts_half_line *to, const ts_attention_rows &x, int col) {
  enum { AHEAD = both ? 8 : 4 };
  const int pairs =
      (int)ts_round_up(min((int)TS_ATTENTION_TILE, x.dim - col), 16) / 2;
  const int shift = pairs <= 8 ? 3 : pairs <= 16 ? 4 : 5; /* lanes of a row */
  const int c = (int)threadIdx.x & ((1 << shift) - 1), at = col + 2 * c;
  const int step = TS_HALF_THREADS >> shift, n = min(x.n, rows);
  int r = (int)threadIdx.x >> shift;
  const float *from = x.x + r * x.stride + at;
  if (c >= pairs) return;
  for (; r < rows; r += AHEAD * step) {
    float2 y[AHEAD];
#pragma unroll
    for (int k = 0; k < AHEAD; k++, from += step * x.stride) {
      const int left = r + k * step < n ? x.dim - at : 0;
      y[k] = make_float2(0, 0);
      if (both && left > 0) y[k] = __ldg((const float2 *)from);
      if (!both && left > 0) y[k].x = __ldg(from);
      if (!both && left > 1) y[k].y = __ldg(from + 1);
    }
#pragma unroll
    for (int k = 0; k < AHEAD; k++)
      if (r + k * step < rows)
        to[r + k * step].x[c] = ts_half_pair(y[k].x, y[k].y);
  }
}

template <int rows>
static __device__ __forceinline__ void
ts_half_fill(ts_half_line *to, const ts_attention_rows &x, int col) {
  if (((uintptr_t)x.x / 4 | x.stride | x.dim) % 2 == 0)
    ts_half_fill_by<rows, true>(to, x, col);
  else
    ts_half_fill_by<rows, false>(to, x, col);
}

/* sum = the dot products of this warp's rows of X with SIDE * 8 rows of Y, by
 * way of tiles; X_THERE: its tile has it, of up to 64 columns.  The tiles are
 * free. */
template <int side>
static __device__ __forceinline__ void
ts_half_dots(float sum[side][4], ts_half_line *xs, ts_half_line *ys,
             const ts_attention_rows &x, const ts_attention_rows &y,
             bool x_there) {
#pragma unroll
  for (int n = 0; n < side; n++)
#pragma unroll
    for (int e = 0; e < 4; e++) sum[n][e] = 0;
  for (int col = 0; col < x.dim; col += TS_ATTENTION_TILE) {
    if (col) __syncthreads();
    if (!x_there || x.dim > TS_ATTENTION_TILE)
      ts_half_fill<TS_ATTENTION_TILE>(xs, x, col);
    ts_half_fill<8 * side>(ys, y, col);
    __syncthreads();
#pragma unroll
    for (int k = 0; k < TS_ATTENTION_TILE; k += 16) {
      uint32_t a[4], b[4];
      if (col + k >= x.dim) break;
      ts_half_square<false>(a, xs[threadIdx.x / 32 * 16].x + k / 2,
                            TS_HALF_PITCH);
#pragma unroll
      for (int n = 0; n < side / 2; n++) {
        ts_half_square<false>(b, ys[16 * n].x + k / 2, TS_HALF_PITCH);
        const uint32_t low[2] = {b[0], b[2]}, high[2] = {b[1], b[3]};
        ts_half_product(sum[2 * n], a, low);
        ts_half_product(sum[2 * n + 1], a, high);
      }
    }
  }
}

/* sum += P times the tile's SIDE * 8 rows, COLUMNS of them. */
template <int side>
static __device__ __forceinline__ void
ts_half_times(float sum[8][4], const float p[side][4], const ts_half_line *y,
              int columns) {
#pragma unroll
  for (int k = 0; k < side / 2; k++) {
    const float *u = p[2 * k], *v = p[2 * k + 1];
    const uint32_t a[4] = {ts_half_pair(u[0], u[1]), ts_half_pair(u[2], u[3]),
                           ts_half_pair(v[0], v[1]), ts_half_pair(v[2], v[3])};
#pragma unroll
    for (int n = 0; n < 4; n++) {
      uint32_t b[4];
      if (16 * n >= columns) break;
      ts_half_square<true>(b, y[16 * k].x + 8 * n, TS_HALF_PITCH);
      ts_half_product(sum[2 * n], a, b);
      ts_half_product(sum[2 * n + 1], a, b + 2);
    }
  }
}

/* A lane's pairs that dropout keeps, x[n][e]'s in bit 4 n of word e.  The
 * random numbers of four queries come from one call, which is made by one of
 * the lanes that have these: a quarter of them, or half where rows are KEYS. */
struct ts_half_kept {
  uint32_t word[4];
  __device__ __forceinline__ bool is(int n, int e) const {
    return word[e] >> (4 * n) & 1;
  }
};

template <bool keys, int side>
static __device__ __forceinline__ ts_half_kept
ts_half_kept_of(const ts_attention_args &t, const ts_attention_head &d,
                int32_t i, int32_t j) {
  const uint32_t all = 0xffffffff;
  const int lane = (int)threadIdx.x % 32, own = keys ? lane % 2 : lane / 4 % 4;
  const int row = ts_half_row(), column = ts_half_column();
  ts_half_kept kept;
  const uint32_t mine =
      keys ? ts_attention_kept<side>(t, d, i + column / 4 * 4,
                                     j + row + 8 * own, 8, 0)
           : ts_attention_kept<side>(t, d, i + row / 4 * 4 + 8 * (own / 2),
                                     j + column + own % 2, 0, 8);
#pragma unroll
  for (int e = 0; e < 4; e++)
    kept.word[e] =
        keys ? __shfl_sync(all, mine, lane - own + e / 2) >> (2 * own + e % 2)
             : __shfl_sync(all, mine, lane + 4 * (e - own)) >> own;
  return kept;
}

/* Columns from COL on of this lane's rows of the N at X, times their FACTOR. */
static __device__ __forceinline__ void
ts_half_store(float *x, int64_t stride, int32_t n, int32_t dim, int col,
              const float sum[8][4], const float factor[2]) {
#pragma unroll
  for (int k = 0; k < 8; k++)
#pragma unroll
    for (int e = 0; e < 4; e++) {
      const int row = ts_half_row() + 8 * (e / 2),
                at = col + ts_half_column() + 8 * k + e % 2;
      if (row < n && at < dim) x[row * stride + at] = factor[e / 2] * sum[k][e];
    }
}
