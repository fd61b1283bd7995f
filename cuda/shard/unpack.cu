/* unpack.cu - input dist's receiving side: the arrays of a group's bags from a
 * list of parts; 1 / length of bags.
 *
 * A first launch adds up the lengths of each part, where there are lengths; the
 * second does a group: first a block for each part's bags, then one for each
 * TS_UNPACK_IDS ids, which finds its parts by bisection.  A section's parts are
 * few, so each of them adds up the sums before it, and no block waits for
 * another.  Positions in bags are counted by another launch, which reads the
 * offsets.  All arguments but the list go by value. */
#include "cuda/runtime/cuda_impl.h"
#include "cuda/runtime/each.cuh"

extern "C" {
#include "shard/unpack.h"
}

enum { TS_UNPACK_THREADS = 256, TS_UNPACK_IDS = 2048 };

/* ---- bags ---------------------------------------------------------------- */

static __device__ __forceinline__ uint32_t
ts_bag_length(const ts_unpack_part &p, int64_t b) {
  if (p.form == TS_FORM_ONE) return 1;
  if (p.form == TS_FORM_BYTES) return __ldg((const uint8_t *)p.lengths + b);
  return (uint32_t)__ldg((const int32_t *)p.lengths + b);
}

/* Sum of X of the threads before this one; *ALL: of all.  SUMS: a warp's sum
 * each, of which the block has two sets and uses them in turn: who writes one
 * has seen, at the barrier between, that all are done with it. */
static __device__ __forceinline__ uint32_t ts_block_scan(uint32_t x,
                                                         uint32_t *sums,
                                                         uint32_t *all) {
  const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
  uint32_t sum = x, before = 0, total = 0;
#pragma unroll
  for (int by = 1; by < 32; by *= 2) {
    const uint32_t y = __shfl_up_sync(0xffffffffu, sum, (unsigned)by);
    if (lane >= by) sum += y;
  }
  if (lane == 31) sums[warp] = sum;
  __syncthreads();
#pragma unroll
  for (int w = 0; w < TS_UNPACK_THREADS / 32; w++) {
    if (w < warp) before += sums[w];
    total += sums[w];
  }
  *all = total;
  return before + sum - x;
}

/* Sum of part I's lengths, of those of them that kernels add up; all threads of
 * the block. */
static __global__ void __launch_bounds__(TS_UNPACK_THREADS)
    ts_unpack_totals(const __grid_constant__ ts_unpack_args a,
                     uint32_t *totals) {
  __shared__ uint32_t sums[2][TS_UNPACK_THREADS / 32];
  int turn = 0;
  for (int32_t i = (int32_t)blockIdx.x; i < a.n_parts;
       i += (int32_t)gridDim.x, turn = 1 - turn) {
    const ts_unpack_part p = a.parts[i];
    uint32_t n = 0, all;
    if (p.form != TS_FORM_OFFSETS)
      for (int64_t b = threadIdx.x; b < p.n_bags; b += TS_UNPACK_THREADS)
        n += ts_bag_length(p, b);
    (void)ts_block_scan(n, sums[turn], &all);
    if (threadIdx.x == 0) totals[i] = all;
  }
}

/* Ids of part I's section before it; notes where the section's sum is not what
 * it must be.  All threads of the block. */
static __device__ __forceinline__ int64_t ts_unpack_before(
    const ts_unpack_args &a, const ts_unpack_part &p, int64_t i,
    const uint32_t *totals, uint32_t (*sums)[TS_UNPACK_THREADS / 32]) {
  uint32_t n = 0, all;
  for (int64_t k = threadIdx.x; k < p.n_before; k += TS_UNPACK_THREADS)
    n += totals[i - 1 - k];
  (void)ts_block_scan(n, sums[0], &all);
  const uint32_t total = all + totals[i];
  if (threadIdx.x == 0 && p.n_listed >= 0 && total != (uint32_t)p.n_listed)
    atomicExch((unsigned long long *)a.bad,
               (unsigned long long)total << 32 | (uint32_t)p.n_listed);
  __syncthreads(); /* the scan begins with the first set */
  return all;
}

/* Offsets from lengths: all threads of the block. */
static __device__ __forceinline__ void
ts_unpack_scan(const ts_unpack_args &a, const ts_unpack_part &p, int64_t base,
               uint32_t (*sums)[TS_UNPACK_THREADS / 32]) {
  int turn = 0;
  for (int64_t from = 0; from < p.n_bags; from += TS_UNPACK_THREADS) {
    const int64_t b = from + threadIdx.x;
    const uint32_t n = b < p.n_bags ? ts_bag_length(p, b) : 0;
    uint32_t all;
    const uint32_t before = ts_block_scan(n, sums[turn], &all);
    if (b < p.n_bags)
      a.offsets[p.first_bag + b] =
          base + before < a.n_ids ? base + before : a.n_ids;
    base += all;
    turn = 1 - turn;
  }
  __syncthreads(); /* the next part begins with the first set */
}

/* TOTALS NULL: no part has lengths. */
static __device__ __forceinline__ void
ts_unpack_bags(const ts_unpack_args &a, const ts_unpack_part &p, int64_t i,
               const uint32_t *totals,
               uint32_t (*sums)[TS_UNPACK_THREADS / 32]) {
  const int64_t *offsets = (const int64_t *)p.lengths;
  const bool scan = p.form != TS_FORM_ONE && p.form != TS_FORM_OFFSETS;
  int64_t base = p.base;
  if (scan) base += ts_unpack_before(a, p, i, totals, sums);
  if (p.form == TS_FORM_ONE) base += (int64_t)p.n_before * TS_UNPACK_BAGS;
  for (int64_t b = threadIdx.x; b < p.n_bags; b += TS_UNPACK_THREADS) {
    a.at[p.first_bag + b] = p.at + b * p.step;
    if (!scan)
      a.offsets[p.first_bag + b] =
          base + (p.form == TS_FORM_ONE ? b : __ldg(offsets + b));
  }
  if (scan) ts_unpack_scan(a, p, base, sums);
}

/* ---- ids ----------------------------------------------------------------- */

static __device__ __forceinline__ int32_t ts_unpack_row(const ts_unpack_part &p,
                                                        int64_t k) {
  if (p.id_bytes == 1) return __ldg((const uint8_t *)p.ids + k);
  if (p.id_bytes == 2) return __ldg((const uint16_t *)p.ids + k);
  if (p.id_bytes == 4) return __ldg((const int32_t *)p.ids + k);
  const int64_t id = __ldg((const int64_t *)p.ids + k);
  const bool beyond = p.n_rows && (uint64_t)id >= (uint64_t)p.n_rows;
  return beyond ? 0 : (int32_t)id;
}

/* Ids [FROM, TO) of the group. */
static __device__ __forceinline__ void ts_unpack_ids(const ts_unpack_args &a,
                                                     int64_t from, int64_t to) {
  int32_t i = ts_last_at(
      a.n_parts, from, [&](int32_t k) { return __ldg(&a.parts[k].first_id); });
  for (; i < a.n_parts; i++) {
    const ts_unpack_part p = a.parts[i];
    const int64_t end = p.first_id + p.n_ids < to ? p.first_id + p.n_ids : to;
    const int64_t first = p.first_id > from ? p.first_id : from;
    if (p.first_id >= to) return;
    for (int64_t k = first + threadIdx.x; k < end; k += TS_UNPACK_THREADS) {
      if (p.id_bytes) a.rows[k] = ts_unpack_row(p, k - p.first_id);
      if (p.weights) a.weights[k] = __ldg(p.weights + (k - p.first_id));
      if (p.positions) a.positions[k] = __ldg(p.positions + (k - p.first_id));
    }
  }
}

static __global__ void __launch_bounds__(TS_UNPACK_THREADS)
    ts_unpack_kernel(const __grid_constant__ ts_unpack_args a, int64_t items,
                     const uint32_t *totals) {
  __shared__ uint32_t sums[2][TS_UNPACK_THREADS / 32];
  if (blockIdx.x == 0 && threadIdx.x == 0) a.offsets[a.n_bags] = a.n_ids;
  for (int64_t i = blockIdx.x; i < items; i += gridDim.x) {
    if (i < a.n_parts) {
      const ts_unpack_part p = a.parts[i];
      ts_unpack_bags(a, p, i, totals, sums);
      continue;
    }
    const int64_t from = (i - a.n_parts) * TS_UNPACK_IDS;
    const int64_t to = from + TS_UNPACK_IDS;
    ts_unpack_ids(a, from, to < a.n_ids ? to : a.n_ids);
  }
}

/* ---- positions ----------------------------------------------------------- */

/* Which of the bags [LOW, HIGH] has id I: the last that begins there or before,
 * as empty ones begin at the same id as the next. */
static __device__ __forceinline__ int64_t ts_bag_of_id(const int64_t *offsets,
                                                       int64_t low,
                                                       int64_t high,
                                                       int64_t i) {
  return low + ts_last_at(high - low + 1, i, [=](int64_t bag) {
           return __ldg(offsets + low + bag);
         });
}

/* A tile's ids lie in few bags, which are looked for first. */
static __global__ void __launch_bounds__(TS_UNPACK_THREADS)
    ts_number_kernel(const int64_t *offsets, uint16_t *positions,
                     int64_t n_bags, int64_t n_ids) {
  for (int64_t tile = blockIdx.x; tile * TS_UNPACK_IDS < n_ids;
       tile += gridDim.x) {
    const int64_t from = tile * TS_UNPACK_IDS;
    const int64_t to =
        from + TS_UNPACK_IDS < n_ids ? from + TS_UNPACK_IDS : n_ids;
    const int64_t low = ts_bag_of_id(offsets, 0, n_bags - 1, from);
    const int64_t high = ts_bag_of_id(offsets, low, n_bags - 1, to - 1);
    for (int64_t i = from + threadIdx.x; i < to; i += TS_UNPACK_THREADS) {
      const int64_t bag = ts_bag_of_id(offsets, low, high, i);
      const int64_t place = i - __ldg(offsets + bag);
      positions[i] = (uint16_t)(place < UINT16_MAX ? place : UINT16_MAX);
    }
  }
}

ts_err ts_cuda_unpack(const ts_unpack_args *a) {
  const int64_t tiles = ts_ceil_div(a->n_ids, TS_UNPACK_IDS);
  const int64_t items = a->n_parts + tiles;
  const int64_t most = ts_cuda_gpu_now()->grid_max;
  const size_t bytes = a->lengths ? (size_t)a->n_parts * 4 : 0;
  uint32_t *totals = NULL;
  TS_DO(ts_cuda_take(&totals, bytes, TS_TAG_COMM));
  ts_err err = TS_OK;
  if (totals)
    err = TS_CUDA_LAUNCH(ts_unpack_totals,
                         {ts_grid(a->n_parts, 1, most), TS_UNPACK_THREADS}, *a,
                         totals);
  if (err == TS_OK)
    err = TS_CUDA_LAUNCH(ts_unpack_kernel,
                         {ts_grid(items, 1, most), TS_UNPACK_THREADS}, *a,
                         items, (const uint32_t *)totals);
  ts_cuda_give(totals, bytes, TS_TAG_COMM);
  TS_DO(err);
  if (a->number && a->n_ids)
    TS_DO(TS_CUDA_LAUNCH(ts_number_kernel,
                         {ts_grid(tiles, 1, most), TS_UNPACK_THREADS},
                         a->offsets, a->positions, a->n_bags, a->n_ids));
  return TS_OK;
}

/* ---- means --------------------------------------------------------------- */

/* Views side by side in y. */
static __global__ void __launch_bounds__(TS_UNPACK_THREADS)
    ts_bag_means_kernel(const __grid_constant__ ts_bag_means_args a) {
  const ts_bag_mean &v = a.view[blockIdx.y];
  ts_each<TS_UNPACK_THREADS>(v.n, [&](int64_t b) {
    const int64_t bag = v.bag ? __ldg(v.bag + b) : b;
    int64_t n = 1;
    if (v.lengths)
      n = __ldg(v.lengths + bag);
    else if (v.offsets)
      n = __ldg(v.offsets + bag + 1) - __ldg(v.offsets + bag);
    v.out[b] = n > 0 ? __fdiv_rn(1.0f, (float)n) : 0.0f;
  });
}

ts_err ts_cuda_bag_means(const ts_bag_means_args *a) {
  int64_t n = 0;
  for (int32_t i = 0; i < a->n_views; i++)
    if (a->view[i].n > n) n = a->view[i].n;
  if (!n) return TS_OK;
  const int64_t most = ts_cuda_gpu_now()->grid_max;
  const unsigned x = ts_grid(n, TS_UNPACK_THREADS, most);
  return TS_CUDA_LAUNCH(ts_bag_means_kernel,
                        {dim3(x, (unsigned)a->n_views), TS_UNPACK_THREADS}, *a);
}
