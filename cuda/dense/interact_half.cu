/* interact_half.cu - DLRM's dot interaction with products of bf16 that are
 * added in f32, by warps (cuda/dense/half.cuh).
 *
 * Forward a sample's vectors are rows of bf16 in shared memory, and a warp has
 * 16 x 16 pairs.  Backward the elements of two vectors alternate there, as sums
 * run over vectors: a warp has 32 columns of 16 gradients.  Sums are always in
 * the same order, but not in the host's, and the GPU's matrix units round in
 * their own way. */
#include "cuda/dense/interact.cuh"

enum { TS_HALF_COLS = 32 };

/* ---- forward ------------------------------------------------------------- */

/* Columns [COL, COL + cols) of all vectors; zeros beside them. */
template <bool WIDE>
static __device__ __forceinline__ void ts_half_fill(const ts_interact_params &p,
                                                    const ts_interact_block &k,
                                                    int32_t col) {
  const int32_t end = min(p.dim, col + p.cols), n = ts_half_padded(p.n);
  uint16_t *rows = (uint16_t *)k.rows;
  ts_interact_each(
      k.n * n, ts_half_padded(end - col) / 4,
      [&](int32_t r, int32_t c) {
        const int32_t s = r / n, i = r - s * n;
        const float4 x = ts_interact_load<WIDE>(
            k.vector[min(i, p.n - 1)], k.b + s, col + 4 * c, i < p.n ? end : 0);
        return make_uint2(ts_half_pair(x.x, x.y), ts_half_pair(x.z, x.w));
      },
      [&](int32_t r, int32_t c, uint2 x) {
        *(uint2 *)(rows + r * p.pitch + 4 * c) = x;
      });
}

/* The 16 x 16 pairs of the vectors at U and at V, WIDTH columns of them. */
static __device__ __forceinline__ void
ts_half_pairs(float sum[2][4], const uint16_t *u, const uint16_t *v,
              int32_t pitch, int32_t width) {
  const int lane = (int)threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const uint32_t *x = (const uint32_t *)(u + g * pitch) + t;
  const uint32_t *y = (const uint32_t *)(v + g * pitch) + t;
  const int32_t down = 4 * pitch; /* 8 rows, in words */
  for (int32_t c = 0; c < width; c += 16, x += 8, y += 8) {
    const uint32_t a[4] = {x[0], x[down], x[4], x[down + 4]};
    const uint32_t b[2][2] = {{y[0], y[4]}, {y[down], y[down + 4]}};
    ts_half_product(sum[0], a, b[0]);
    ts_half_product(sum[1], a, b[1]);
  }
}

static __device__ __forceinline__ void ts_half_keep(uint16_t *pairs, int32_t n,
                                                    int32_t i, int32_t j,
                                                    const float sum[2][4]) {
  const int lane = (int)threadIdx.x % 32;
  i += lane / 4;
  j += 2 * (lane % 4);
#pragma unroll
  for (int m = 0; m < 2; m++)
#pragma unroll
    for (int c = 0; c < 4; c++) {
      const int32_t row = i + 8 * (c / 2), col = j + 8 * m + c % 2;
      if (row < col && col < n)
        pairs[ts_pair_at(n, row, col)] = ts_half_near(sum[m][c]);
    }
}

template <bool WIDE>
__global__ void __launch_bounds__(TS_INTERACT_THREADS)
    ts_interact_half_kernel(const __grid_constant__ ts_interact_params p) {
  TS_SHARED_DYNAMIC(char, shared);
  enum { WARPS = TS_INTERACT_THREADS / 32 };
  ts_interact_block k = ts_interact_start(p, shared);
  const int32_t np = ts_half_padded(p.n), side = np / TS_HALF_SIDE;
  const int32_t tiles = side * (side + 1) / 2;
  const uint16_t *rows = (const uint16_t *)k.rows;
  for (; ts_interact_turn(p, k); ts_interact_next(p, k)) {
    const int32_t items = k.n * tiles;
    for (int32_t first = 0; first < items; first += WARPS) {
      const int32_t item = min(first + (int32_t)threadIdx.x / 32, items - 1);
      const int32_t s = item / tiles;
      int32_t i = 0, j = item - s * tiles;
      for (; j >= side - i; i++) j -= side - i;
      i *= TS_HALF_SIDE, j = i + j * TS_HALF_SIDE;
      float sum[2][4] = {};
      for (int32_t col = 0; col < p.dim; col += p.cols) {
        if (first == 0 || p.cols < p.dim) { /* else it is there */
          __syncthreads();
          ts_half_fill<WIDE>(p, k, col);
          __syncthreads();
        }
        ts_half_pairs(sum, rows + (s * np + i) * p.pitch,
                      rows + (s * np + j) * p.pitch, p.pitch,
                      min(p.cols, p.dim - col));
      }
      if (first + (int32_t)threadIdx.x / 32 < items)
        ts_half_keep(ts_interact_row<uint16_t>(p, k, s) + p.head, p.n, i, j,
                     sum);
    }
    ts_interact_ends<uint16_t>(p, k);
    if (!p.more) continue;
    __syncthreads();
    ts_interact_flush<uint16_t>(p, k);
  }
}

/* ---- backward ------------------------------------------------------------ */

/* Columns [COL, COL + cols) of vectors 2q and 2q + 1 in turns; zeros beside
 * them. */
template <bool WIDE>
static __device__ __forceinline__ void
ts_half_fill_pairs(const ts_interact_params &p, const ts_interact_block &k,
                   int32_t col) {
  const int32_t end = min(p.dim, col + p.cols), n = ts_half_padded(p.n) / 2;
  uint32_t *rows = (uint32_t *)k.rows;
  const auto load = [&](int32_t s, int32_t i, int32_t at) {
    return ts_interact_load<WIDE>(k.vector[min(i, p.n - 1)], k.b + s, at,
                                  i < p.n ? end : 0);
  };
  ts_interact_each(
      k.n * n, ts_half_padded(end - col) / 4,
      [&](int32_t r, int32_t c) {
        const int32_t s = r / n, i = 2 * (r - s * n);
        const float4 x = load(s, i, col + 4 * c);
        const float4 y = load(s, i + 1, col + 4 * c);
        return make_uint4(ts_half_pair(x.x, y.x), ts_half_pair(x.y, y.y),
                          ts_half_pair(x.z, y.z), ts_half_pair(x.w, y.w));
      },
      [&](int32_t r, int32_t c, uint4 x) {
        *(uint4 *)(rows + r * p.pitch + 4 * c) = x;
      });
}

static __device__ __forceinline__ uint32_t
ts_half_grad_of(const uint16_t *pairs, int32_t n, int32_t i, int32_t j) {
  if (i >= n || j >= n || i == j) return 0;
  return __ldg(pairs + ts_pair_at(n, min(i, j), max(i, j)));
}

static __device__ __forceinline__ const uint16_t *
ts_half_pairs_of(const ts_interact_params &p, const ts_interact_block &k,
                 int32_t s) {
  return (const uint16_t *)p.grad + (k.b + s) * p.out_stride + p.head;
}

/* The symmetric matrix of the pairs' gradients, zeros where there are none. */
static __device__ __forceinline__ void
ts_half_spread(const ts_interact_params &p, const ts_interact_block &k) {
  const int32_t np = ts_half_padded(p.n), pitch = ts_half_pitch(p.n);
  const int32_t warps = TS_INTERACT_THREADS / 32;
  const int32_t lane = (int32_t)threadIdx.x % 32;
  for (int32_t r = (int32_t)threadIdx.x / 32; r < k.n * np; r += warps) {
    const int32_t s = r / np, i = r - s * np;
    const uint16_t *pairs = ts_half_pairs_of(p, k, s);
    uint16_t *g = (uint16_t *)(k.more + (int64_t)s * p.more_bytes);
    for (int32_t j = i + lane; j < np; j += 32)
      g[i * pitch + j] = g[j * pitch + i] =
          (uint16_t)ts_half_grad_of(pairs, p.n, i, j);
  }
}

/* The pairs of rows I + g and I + g + 8 from column J on, as products take
 * them. */
template <bool MORE>
static __device__ __forceinline__ void
ts_half_grads(uint32_t a[4], const uint16_t *g, int32_t n, int32_t i,
              int32_t j) {
  const int lane = (int)threadIdx.x % 32;
  i += lane / 4;
  j += 2 * (lane % 4);
#pragma unroll
  for (int k = 0; k < 4; k++) {
    const int32_t row = i + 8 * (k % 2), col = j + 8 * (k / 2);
    a[k] = MORE ? *(const uint32_t *)(g + row * ts_half_pitch(n) + col)
                : ts_half_grad_of(g, n, row, col) |
                      ts_half_grad_of(g, n, row, col + 1) << 16;
  }
}

/* Gradients of 16 vectors from I on, N_PRODUCTS * 8 columns of the chunk. */
template <bool MORE>
static __device__ __forceinline__ void
ts_half_combine(float sum[TS_HALF_COLS / 8][4], const uint16_t *g,
                const uint32_t *rows, int32_t pitch, int32_t n, int32_t i,
                int32_t n_products) {
  const int lane = (int)threadIdx.x % 32;
  const uint32_t *x = rows + (lane % 4) * pitch + lane / 4;
  for (int32_t j = 0; j < n; j += 16, x += 8 * pitch) {
    uint32_t a[4];
    ts_half_grads<MORE>(a, g, n, i, j);
#pragma unroll
    for (int m = 0; m < TS_HALF_COLS / 8; m++) {
      if (m >= n_products) break;
      const uint32_t b[2] = {x[8 * m], x[8 * m + 4 * pitch]};
      ts_half_product(sum[m], a, b);
    }
  }
}

/* Sums of two columns, COL and the next, to vector I's gradient. */
template <bool WIDE>
static __device__ __forceinline__ void
ts_half_put(const ts_interact_params &p, const ts_interact_block &k, int32_t s,
            int32_t i, int32_t col, float x, float y) {
  if (i >= p.n || col >= p.dim) return;
  const ts_interact_vector &v = k.vector[i];
  float *to = v.to + (k.b + s) * v.stride + col;
  const bool both = WIDE || col + 1 < p.dim;
  if (i == 0 && p.head) {
    const uint16_t *row =
        (const uint16_t *)p.grad + (k.b + s) * p.out_stride + col;
    x = __fadd_rn(x, ts_wide_bf16(__ldg(row)));
    if (both) y = __fadd_rn(y, ts_wide_bf16(__ldg(row + 1)));
  }
  if (WIDE) {
    *(float2 *)to = make_float2(x, y);
  } else {
    to[0] = x;
    if (both) to[1] = y;
  }
}

template <bool WIDE, bool MORE>
static __device__ __forceinline__ void
ts_half_item(const ts_interact_params &p, const ts_interact_block &k, int32_t s,
             int32_t i, int32_t col, int32_t c) {
  const int lane = (int)threadIdx.x % 32, pairs = ts_half_padded(p.n) / 2;
  const uint16_t *g =
      MORE ? (const uint16_t *)(k.more + (int64_t)s * p.more_bytes)
           : ts_half_pairs_of(p, k, s);
  const int32_t left = ts_half_padded(min(p.cols, p.dim - col)) - c;
  float sum[TS_HALF_COLS / 8][4] = {};
  ts_half_combine<MORE>(sum, g,
                        (const uint32_t *)k.rows + s * pairs * p.pitch + c,
                        p.pitch, p.n, i, left / 8);
  const int32_t row = i + lane / 4, at = col + c + 2 * (lane % 4);
#pragma unroll
  for (int m = 0; m < TS_HALF_COLS / 8; m++) {
    if (m >= left / 8) break;
    ts_half_put<WIDE>(p, k, s, row, at + 8 * m, sum[m][0], sum[m][1]);
    ts_half_put<WIDE>(p, k, s, row + 8, at + 8 * m, sum[m][2], sum[m][3]);
  }
}

template <bool WIDE, bool MORE>
__global__ void __launch_bounds__(TS_INTERACT_THREADS)
    ts_interact_half_grad_kernel(const __grid_constant__ ts_interact_params p) {
  TS_SHARED_DYNAMIC(char, shared);
  enum { WARPS = TS_INTERACT_THREADS / 32 };
  ts_interact_block k = ts_interact_start(p, shared);
  const int32_t tiles = ts_half_padded(p.n) / TS_HALF_SIDE;
  for (; ts_interact_turn(p, k); ts_interact_next(p, k)) {
    __syncthreads();
    if (MORE) ts_half_spread(p, k);
    for (int32_t col = 0; col < p.dim; col += p.cols) {
      const int32_t width =
          (int32_t)ts_ceil_div(min(p.cols, p.dim - col), TS_HALF_COLS);
      if (col) __syncthreads();
      ts_half_fill_pairs<WIDE>(p, k, col);
      __syncthreads();
      for (int32_t item = (int32_t)threadIdx.x / 32; item < k.n * tiles * width;
           item += WARPS) {
        const int32_t row = item / width, c = item - row * width;
        const int32_t s = row / tiles, i = row - s * tiles;
        ts_half_item<WIDE, MORE>(p, k, s, i * TS_HALF_SIDE, col,
                                 c * TS_HALF_COLS);
      }
    }
  }
}

const ts_interact_kernels ts_interact_half = {
    {ts_interact_half_kernel<false>, ts_interact_half_kernel<true>},
    {{ts_interact_half_grad_kernel<false, false>,
      ts_interact_half_grad_kernel<false, true>},
     {ts_interact_half_grad_kernel<true, false>,
      ts_interact_half_grad_kernel<true, true>}}};
