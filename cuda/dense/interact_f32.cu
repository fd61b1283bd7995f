/* interact_f32.cu - DLRM's dot interaction in f32, with the bits of the
 * host's plain C (isa "ref"): a product of two vectors is four sums, column
 * modulo 4, which a vector of 16 bytes has side by side; a gradient is a sum
 * over vectors in their order.  No operation is fused.
 *
 * Forward a thread has 4 x 4 pairs: vectors I, I + T, I + 2T, I + 3T with J,
 * J + T .., where T is a quarter of n; so lanes that are beside each other read
 * rows beside each other, in banks of their own.  Backward a thread has four
 * columns of 8 gradients. */
#include "cuda/dense/interact.cuh"

static __device__ __forceinline__ float4 ts_add_product(float4 s, float4 x,
                                                        float4 y) {
  return make_float4(
      __fadd_rn(s.x, __fmul_rn(x.x, y.x)), __fadd_rn(s.y, __fmul_rn(x.y, y.y)),
      __fadd_rn(s.z, __fmul_rn(x.z, y.z)), __fadd_rn(s.w, __fmul_rn(x.w, y.w)));
}

/* Columns [COL, COL + cols) of all vectors; columns up to a multiple of 4 are
 * zeros. */
template <bool WIDE>
static __device__ __forceinline__ void
ts_interact_fill(const ts_interact_params &p, const ts_interact_block &k,
                 int32_t col) {
  const int32_t end = min(p.dim, col + p.cols), n = p.n;
  float *rows = (float *)k.rows;
  ts_interact_each(
      k.n * n, (end - col + 3) / 4,
      [&](int32_t r, int32_t c) {
        const int32_t s = r / n;
        return ts_interact_load<WIDE>(k.vector[r - s * n], k.b + s, col + 4 * c,
                                      end);
      },
      [&](int32_t r, int32_t c, float4 x) {
        *(float4 *)(rows + r * p.pitch + 4 * c) = x;
      });
}

/* ---- forward ------------------------------------------------------------- */

/* Pairs of a sample that a thread has. */
struct ts_interact_tile {
  int32_t s, i, j; /* sample; the first vectors */
};

/* Tile number ITEM, SIDE * (SIDE + 1) / 2 of them in a sample: i <= j. */
static __device__ __forceinline__ ts_interact_tile
ts_interact_tile_of(int32_t item, int32_t side) {
  const int32_t n = side * (side + 1) / 2;
  ts_interact_tile t;
  t.s = item / n;
  int32_t left = item - t.s * n;
  for (t.i = 0; left >= side - t.i; t.i++) left -= side - t.i;
  t.j = t.i + left;
  return t;
}

static __device__ __forceinline__ void
ts_interact_products(float4 sum[TS_INTERACT_SIDE][TS_INTERACT_SIDE],
                     const ts_interact_params &p, const float *rows,
                     const ts_interact_tile &t, int32_t side, int32_t width) {
  const float *u[TS_INTERACT_SIDE], *v[TS_INTERACT_SIDE];
#pragma unroll
  for (int a = 0; a < TS_INTERACT_SIDE; a++) {
    const int32_t first = t.s * p.n;
    u[a] = rows + (first + min(t.i + a * side, p.n - 1)) * p.pitch;
    v[a] = rows + (first + min(t.j + a * side, p.n - 1)) * p.pitch;
  }
  for (int32_t c = 0; c < width; c += 4) {
    float4 x[TS_INTERACT_SIDE], y[TS_INTERACT_SIDE];
#pragma unroll
    for (int a = 0; a < TS_INTERACT_SIDE; a++) {
      x[a] = *(const float4 *)(u[a] + c);
      y[a] = *(const float4 *)(v[a] + c);
    }
#pragma unroll
    for (int a = 0; a < TS_INTERACT_SIDE; a++)
#pragma unroll
      for (int b = 0; b < TS_INTERACT_SIDE; b++)
        sum[a][b] = ts_add_product(sum[a][b], x[a], y[b]);
  }
}

static __device__ __forceinline__ void
ts_interact_keep(float *pairs, int32_t n, const ts_interact_tile &t,
                 int32_t side,
                 const float4 sum[TS_INTERACT_SIDE][TS_INTERACT_SIDE]) {
#pragma unroll
  for (int a = 0; a < TS_INTERACT_SIDE; a++)
#pragma unroll
    for (int b = 0; b < TS_INTERACT_SIDE; b++) {
      const int32_t i = t.i + a * side, j = t.j + b * side;
      const float4 s = sum[a][b];
      if (i >= n || j >= n || i == j || (t.i == t.j && i > j)) continue;
      pairs[ts_pair_at(n, min(i, j), max(i, j))] =
          __fadd_rn(__fadd_rn(s.x, s.z), __fadd_rn(s.y, s.w));
    }
}

template <bool WIDE>
__global__ void __launch_bounds__(TS_INTERACT_THREADS)
    ts_interact_kernel(const __grid_constant__ ts_interact_params p) {
  TS_SHARED_DYNAMIC(char, shared);
  ts_interact_block k = ts_interact_start(p, shared);
  const int32_t side = ts_interact_side(p.n);
  for (; ts_interact_turn(p, k); ts_interact_next(p, k)) {
    const int32_t items = k.n * (side * (side + 1) / 2);
    for (int32_t first = 0; first < items; first += TS_INTERACT_THREADS) {
      const int32_t item = first + (int32_t)threadIdx.x;
      const ts_interact_tile t =
          ts_interact_tile_of(min(item, items - 1), side);
      float4 sum[TS_INTERACT_SIDE][TS_INTERACT_SIDE] = {};
      for (int32_t col = 0; col < p.dim; col += p.cols) {
        if (first == 0 || p.cols < p.dim) { /* else it is there */
          __syncthreads();
          ts_interact_fill<WIDE>(p, k, col);
          __syncthreads();
        }
        ts_interact_products(sum, p, (const float *)k.rows, t, side,
                             min(p.cols, p.dim - col));
      }
      if (item < items)
        ts_interact_keep(ts_interact_row<float>(p, k, t.s) + p.head, p.n, t,
                         side, sum);
    }
    ts_interact_ends<float>(p, k);
    if (!p.more) continue;
    __syncthreads();
    ts_interact_flush<float>(p, k);
  }
}

/* ---- backward ------------------------------------------------------------ */

static __device__ __forceinline__ float
ts_grad_of(const float *pairs, int32_t n, int32_t i, int32_t j) {
  if (i >= n || i == j) return 0;
  return __ldg(pairs + ts_pair_at(n, min(i, j), max(i, j)));
}

/* The pairs' gradients of sample S. */
static __device__ __forceinline__ const float *
ts_interact_pairs_of(const ts_interact_params &p, const ts_interact_block &k,
                     int32_t s) {
  return (const float *)p.grad + (k.b + s) * p.out_stride + p.head;
}

static __device__ __forceinline__ void
ts_interact_spread(const ts_interact_params &p, const ts_interact_block &k) {
  const int32_t np = ts_interact_matrix(p.n), warps = TS_INTERACT_THREADS / 32;
  const int32_t lane = (int32_t)threadIdx.x % 32;
  for (int32_t r = (int32_t)threadIdx.x / 32; r < k.n * p.n; r += warps) {
    const int32_t s = r / p.n, i = r - s * p.n;
    const float *pairs = ts_interact_pairs_of(p, k, s);
    float *g = (float *)(k.more + (int64_t)s * p.more_bytes);
    for (int32_t j = i + lane; j < np; j += 32) {
      const float x = j < p.n ? ts_grad_of(pairs, p.n, i, j) : 0;
      g[i * np + j] = x;
      if (j < p.n) g[j * np + i] = x;
    }
  }
}

/* Gradients of TS_INTERACT_GRADS vectors from I on, columns [C, C + 4) of the
 * chunk: over all vectors, in order. */
template <bool MORE>
static __device__ __forceinline__ void
ts_interact_combine(float4 sum[TS_INTERACT_GRADS], const float *g,
                    const float *rows, int32_t pitch, int32_t n, int32_t i) {
  const int32_t np = ts_interact_matrix(n);
#pragma unroll
  for (int a = 0; a < TS_INTERACT_GRADS; a++) sum[a] = make_float4(0, 0, 0, 0);
  for (int32_t j = 0; j < n; j++) {
    const float4 x = *(const float4 *)(rows + j * pitch);
    float by[TS_INTERACT_GRADS];
    if (MORE) {
      const float4 low = *(const float4 *)(g + j * np + i);
      const float4 high = *(const float4 *)(g + j * np + i + 4);
      by[0] = low.x, by[1] = low.y, by[2] = low.z, by[3] = low.w;
      by[4] = high.x, by[5] = high.y, by[6] = high.z, by[7] = high.w;
    } else {
#pragma unroll
      for (int a = 0; a < TS_INTERACT_GRADS; a++)
        by[a] = ts_grad_of(g, n, i + a, j);
    }
#pragma unroll
    for (int a = 0; a < TS_INTERACT_GRADS; a++)
      sum[a] =
          ts_add_product(sum[a], make_float4(by[a], by[a], by[a], by[a]), x);
  }
}

/* X to columns [COL, COL + 4) of vector I's gradient; bottom's own comes to
 * its. */
template <bool WIDE>
static __device__ __forceinline__ void
ts_interact_put(const ts_interact_params &p, const ts_interact_block &k,
                int32_t s, int32_t i, int32_t col, float4 x) {
  const ts_interact_vector &v = k.vector[i];
  float *to = v.to + (k.b + s) * v.stride + col;
  float own[4] = {x.x, x.y, x.z, x.w};
  if (i == 0 && p.head) {
    const float *row = (const float *)p.grad + (k.b + s) * p.out_stride + col;
#pragma unroll
    for (int c = 0; c < 4; c++)
      if (col + c < p.dim) own[c] = __fadd_rn(own[c], __ldg(row + c));
  }
  if (WIDE) {
    *(float4 *)to = make_float4(own[0], own[1], own[2], own[3]);
  } else {
#pragma unroll
    for (int c = 0; c < 4; c++)
      if (col + c < p.dim) to[c] = own[c];
  }
}

template <bool WIDE, bool MORE>
__global__ void __launch_bounds__(TS_INTERACT_THREADS)
    ts_interact_grad_kernel(const __grid_constant__ ts_interact_params p) {
  TS_SHARED_DYNAMIC(char, shared);
  ts_interact_block k = ts_interact_start(p, shared);
  const int32_t tiles = (int32_t)ts_ceil_div(p.n, TS_INTERACT_GRADS);
  for (; ts_interact_turn(p, k); ts_interact_next(p, k)) {
    __syncthreads();
    if (MORE) ts_interact_spread(p, k);
    for (int32_t col = 0; col < p.dim; col += p.cols) {
      const int32_t width = (min(p.cols, p.dim - col) + 3) / 4;
      if (col) __syncthreads();
      ts_interact_fill<WIDE>(p, k, col);
      __syncthreads();
      for (int32_t item = (int32_t)threadIdx.x; item < k.n * tiles * width;
           item += TS_INTERACT_THREADS) {
        const int32_t row = item / width, c = 4 * (item - row * width);
        const int32_t s = row / tiles,
                      i = (row - s * tiles) * TS_INTERACT_GRADS;
        float4 sum[TS_INTERACT_GRADS];
        ts_interact_combine<MORE>(
            sum,
            MORE ? (const float *)(k.more + (int64_t)s * p.more_bytes)
                 : ts_interact_pairs_of(p, k, s),
            (const float *)k.rows + s * p.n * p.pitch + c, p.pitch, p.n, i);
#pragma unroll
        for (int a = 0; a < TS_INTERACT_GRADS; a++)
          if (i + a < p.n)
            ts_interact_put<WIDE>(p, k, s, i + a, col + c, sum[a]);
      }
    }
  }
}

const ts_interact_kernels ts_interact_f32 = {
    {ts_interact_kernel<false>, ts_interact_kernel<true>},
    {{ts_interact_grad_kernel<false, false>,
      ts_interact_grad_kernel<false, true>},
     {ts_interact_grad_kernel<true, false>,
      ts_interact_grad_kernel<true, true>}}};
