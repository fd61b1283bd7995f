/* contract.cu - sums of products over one index (model/kernels.h).
 *
 * By shape an element of C is summed by a thread; by a warp, where its factors
 * lie one after the other; or by tiles of up to 16 x 16 elements whose factors
 * go through shared memory.  A sum that is long for as few elements as weights
 * have is cut into chunks, which a second launch adds up.  What is chosen, and
 * so the order of a sum, depends on the shape alone. */
#include "cuda/runtime/cuda_impl.h"
#include "cuda/runtime/each.cuh"

enum {
  TS_CONTRACT_THREADS = 256,
  TS_CONTRACT_TILE = 16,  /* elements of C, of either side, at most */
  TS_CONTRACT_STEP = 32,  /* of k at a time, at least */
  TS_CONTRACT_ROOM = 528, /* floats of a side: 16 rows of 32, and one more */
  TS_CONTRACT_CHUNK = 512 /* of k, at least */
};

/* Element I of all, J fastest: where its factors begin, and where it lies. */
struct ts_contract_at {
  const float *a, *b;
  float *c;
  __device__ ts_contract_at(const ts_contract_args &t, int64_t at) {
    const int64_t j = at % t.n_j, by_i = at / t.n_j;
    const int64_t i = by_i % t.n_i, by_h = by_i / t.n_i;
    const int64_t h = by_h % t.n_h, n = by_h / t.n_h;
    a = t.a + n * t.as.b + h * t.as.h + i * t.as.r;
    b = t.b ? t.b + n * t.bs.b + h * t.bs.h + j * t.bs.r : NULL;
    c = t.c + n * t.cs.b + h * t.cs.h + i * t.cs.r + j * t.cs.c;
  }
};

static __device__ __forceinline__ void
ts_contract_put(const ts_contract_args &t, float *c, double sum) {
  *c = (t.add ? *c : 0.0f) + (float)(t.scale * sum);
}

/* The sum over k from FROM on, every STEP-th. */
static __device__ __forceinline__ float
ts_contract_sum(const ts_contract_args &t, const ts_contract_at &p,
                int64_t from, int64_t step) {
  float sum = 0;
#pragma unroll 4
  for (int64_t k = from; k < t.n_k; k += step)
    sum = fmaf(__ldg(p.a + k * t.as.c), p.b ? __ldg(p.b + k * t.bs.c) : 1.0f,
               sum);
  return sum;
}

static __global__ void __launch_bounds__(TS_CONTRACT_THREADS)
    ts_contract_each_kernel(const __grid_constant__ ts_contract_args t,
                            int64_t n) {
  ts_each<TS_CONTRACT_THREADS>(n, [&](int64_t i) {
    const ts_contract_at p(t, i);
    ts_contract_put(t, p.c, ts_contract_sum(t, p, 0, 1));
  });
}

static __global__ void __launch_bounds__(TS_CONTRACT_THREADS)
    ts_contract_warp_kernel(const __grid_constant__ ts_contract_args t,
                            int64_t n) {
  const int warps = TS_CONTRACT_THREADS / 32, lane = (int)threadIdx.x % 32;
  for (int64_t i = (int64_t)blockIdx.x * warps + threadIdx.x / 32; i < n;
       i += (int64_t)gridDim.x * warps) {
    const ts_contract_at p(t, i);
    float sum = ts_contract_sum(t, p, lane, 32);
    for (int by = 16; by > 0; by /= 2)
      sum += __shfl_xor_sync(0xffffffff, sum, by);
    if (lane == 0) ts_contract_put(t, p.c, sum);
  }
}

/* ---- tiles --------------------------------------------------------------- */

/* A block has I x J elements, and SLICES threads for each, which take turns
 * over STEP of k.  PARTS: sums of chunks, (chunk, element); NULL: there is one
 * chunk. */
struct ts_contract_tiles {
  int i, j, slices, step;
  int64_t by_i, by_j, n_chunks, chunk, n; /* n: of elements */
  float *parts;
};

/* A side's factors for the STEP of k from K on, less than END: row R of ROWS at
 * x + R * stride; ones where X is NULL, zeros where there are none. */
static __device__ __forceinline__ void
ts_contract_load(float *to, const ts_contract_tiles &s, const float *x,
                 int rows, int left, int64_t stride, int64_t k_stride,
                 int64_t k, int64_t end) {
  const bool along = k_stride == 1; /* else neighbours are rows */
  for (int e = (int)threadIdx.x; e < rows * s.step; e += TS_CONTRACT_THREADS) {
    const int r = along ? e / s.step : e % rows;
    const int q = along ? e % s.step : e / rows;
    const bool there = r < left && k + q < end;
    to[r * (s.step + 1) + q] = !there ? 0.0f
                               : x ? __ldg(x + r * stride + (k + q) * k_stride)
                                   : 1.0f;
  }
}

/* One tile of one chunk, by its number; the block's threads together. */
static __device__ void ts_contract_tile(const ts_contract_args &t,
                                        const ts_contract_tiles &s, int64_t at,
                                        float *as, float *bs, float *sums) {
  const int64_t chunk = at % s.n_chunks, tile = at / s.n_chunks;
  const int64_t j = tile % s.by_j * s.j, i = tile / s.by_j % s.by_i * s.i;
  const int64_t row = tile / s.by_j / s.by_i * t.n_i + i; /* of all b, h, i */
  const ts_contract_at p(t, row * t.n_j + j);
  const int own_j = (int)threadIdx.x % s.j, by = (int)threadIdx.x / s.j;
  const int own_i = by % s.i, slice = by / s.i;
  const int left_i = (int)min((int64_t)s.i, t.n_i - i);
  const int left_j = (int)min((int64_t)s.j, t.n_j - j);
  const int64_t from = chunk * s.chunk, end = min(from + s.chunk, t.n_k);
  float sum = 0;
  for (int64_t k = from; k < end; k += s.step) {
    ts_contract_load(as, s, p.a, s.i, left_i, t.as.r, t.as.c, k, end);
    ts_contract_load(bs, s, p.b, s.j, left_j, t.bs.r, t.bs.c, k, end);
    __syncthreads();
    for (int q = slice; q < s.step; q += s.slices)
      sum =
          fmaf(as[own_i * (s.step + 1) + q], bs[own_j * (s.step + 1) + q], sum);
    __syncthreads();
  }
  sums[threadIdx.x] = sum;
  __syncthreads();
  for (int half = TS_CONTRACT_THREADS / 2; half >= s.i * s.j; half /= 2) {
    if ((int)threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
    __syncthreads();
  }
  if (slice == 0 && own_i < left_i && own_j < left_j) {
    const int64_t element = (row + own_i) * t.n_j + j + own_j;
    if (s.parts)
      s.parts[chunk * s.n + element] = sums[threadIdx.x];
    else
      ts_contract_put(t, p.c + own_i * t.cs.r + own_j * t.cs.c,
                      sums[threadIdx.x]);
  }
  __syncthreads();
}

static __global__ void __launch_bounds__(TS_CONTRACT_THREADS)
    ts_contract_tile_kernel(const __grid_constant__ ts_contract_args t,
                            const __grid_constant__ ts_contract_tiles s,
                            int64_t n) {
  __shared__ float as[TS_CONTRACT_ROOM], bs[TS_CONTRACT_ROOM];
  __shared__ float sums[TS_CONTRACT_THREADS];
  for (int64_t i = blockIdx.x; i < n; i += gridDim.x)
    ts_contract_tile(t, s, i, as, bs, sums);
}

static __global__ void __launch_bounds__(TS_CONTRACT_THREADS)
    ts_contract_parts_kernel(const __grid_constant__ ts_contract_args t,
                             const __grid_constant__ ts_contract_tiles s) {
  ts_each<TS_CONTRACT_THREADS>(s.n, [&](int64_t i) {
    double sum = 0;
    for (int64_t k = 0; k < s.n_chunks; k++) sum += s.parts[k * s.n + i];
    ts_contract_put(t, ts_contract_at(t, i).c, sum);
  });
}

/* ---- by shape ------------------------------------------------------------ */

static int side_of(int32_t n) {
  int side = 1;
  while (side < TS_CONTRACT_TILE && side < n) side *= 2;
  return side;
}

static ts_err by_tiles(const ts_contract_args *t, int64_t n) {
  ts_err err = TS_OK;
  ts_contract_tiles s = {};
  s.i = side_of(t->n_i);
  s.j = side_of(t->n_j);
  s.slices = TS_CONTRACT_THREADS / (s.i * s.j);
  s.step = s.slices > TS_CONTRACT_STEP ? s.slices : (int)TS_CONTRACT_STEP;
  s.by_i = ts_ceil_div(t->n_i, s.i);
  s.by_j = ts_ceil_div(t->n_j, s.j);
  s.n = n;
  const int64_t tiles = t->n_b * t->n_h * s.by_i * s.by_j;
  const int64_t most = ts_ceil_div(1024, tiles); /* chunks that fill a GPU */
  s.chunk = ts_round_up(ts_ceil_div(t->n_k, most), TS_CONTRACT_CHUNK);
  s.n_chunks = ts_ceil_div(t->n_k, s.chunk);
  const size_t bytes =
      s.n_chunks > 1 ? (size_t)(s.n_chunks * n) * sizeof(float) : 0;
  TS_TRY(ts_cuda_take(&s.parts, bytes, TS_TAG_ACTIVATIONS));
  TS_TRY(TS_CUDA_LAUNCH(
      ts_contract_tile_kernel,
      ts_cuda_strided(tiles * s.n_chunks, 1, TS_CONTRACT_THREADS), *t, s,
      tiles * s.n_chunks));
  if (s.parts)
    TS_TRY(TS_CUDA_LAUNCH(
        ts_contract_parts_kernel,
        ts_cuda_strided(n, TS_CONTRACT_THREADS, TS_CONTRACT_THREADS), *t, s));
done:
  ts_cuda_give(s.parts, bytes, TS_TAG_ACTIVATIONS);
  return err;
}

ts_err ts_cuda_contract(const ts_contract_args *t) {
  const int64_t product = (int64_t)t->n_i * t->n_j,
                n = t->n_b * t->n_h * product;
  const bool along = t->as.c == 1 && (!t->b || t->bs.c == 1);
  if (n == 0) return TS_OK;
  if ((product >= 64 && t->n_k >= 16) || (n < 65536 && t->n_k >= 512))
    return by_tiles(t, n);
  if (along && t->n_k >= 32)
    return TS_CUDA_LAUNCH(
        ts_contract_warp_kernel,
        ts_cuda_strided(n, TS_CONTRACT_THREADS / 32, TS_CONTRACT_THREADS), *t,
        n);
  return TS_CUDA_LAUNCH(
      ts_contract_each_kernel,
      ts_cuda_strided(n, TS_CONTRACT_THREADS, TS_CONTRACT_THREADS), *t, n);
}
