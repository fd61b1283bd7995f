/* positions.cu - weights by position, and their gradients' sums, which have the
 * host's order: a sum's additions go from bag to bag, one after the other
 * (shard/view_kernels.h).
 *
 * A column of the grid is a sum.  Each of its blocks but the last has 32
 * places and goes through the bags 128 at a time: all threads spread their
 * ids' values over a table of (bag, place), zeros where there are none, and
 * one warp adds its columns, a lane for each place, while the others fill the
 * next table.  The last block has the last place, which may have many ids of
 * a bag: threads pick them out of 2048 ids at a time and keep their order,
 * and one adds them. */
#include "cuda/runtime/cuda_impl.h"
#include "cuda/runtime/each.cuh"

extern "C" {
#include "shard/view_kernels.h"
}

enum {
  TS_POSITION_THREADS = 512,
  TS_POSITION_BAGS = 128,
  TS_POSITION_PLACES = 32,
  TS_POSITION_IDS = 4 * TS_POSITION_THREADS
};

/* ---- weights ------------------------------------------------------------- */

static __global__ void __launch_bounds__(TS_POSITION_THREADS)
    ts_weigh_positions_kernel(const __grid_constant__ ts_position_args a) {
  const ts_position_slot &s = a.slot[blockIdx.y];
  const int64_t to = __ldg(s.offsets + s.n_bags);
  const int64_t step = (int64_t)gridDim.x * TS_POSITION_THREADS;
  int64_t i = __ldg(s.offsets) + (int64_t)blockIdx.x * TS_POSITION_THREADS +
              threadIdx.x;
#pragma unroll 4
  for (; i < to; i += step)
    s.value[i] = __ldg(s.weight + min((int)__ldg(s.positions + i), s.n - 1));
}

/* ---- sums ---------------------------------------------------------------- */

/* Slots of each sum: group g's are first[g] <= k < first[g + 1]. */
typedef struct ts_position_sums {
  uint8_t first[TS_POSITION_SLOTS + 1];
  int32_t n_groups;
  ts_position_args args;
} ts_position_sums;

/* One table, and which bags it is of. */
struct ts_place_table {
  float value[TS_POSITION_BAGS * TS_POSITION_PLACES];
  int64_t offsets[TS_POSITION_BAGS + 1];
};

static __device__ __forceinline__ int ts_table_bags(const ts_position_slot &s,
                                                    int64_t bag) {
  return (int)min(s.n_bags - bag, (int64_t)TS_POSITION_BAGS);
}

/* Zeros, and the offsets of the bags from BAG on. */
static __device__ void ts_table_clear(ts_place_table *t,
                                      const ts_position_slot &s, int64_t bag) {
  const int n = ts_table_bags(s, bag);
  for (int k = threadIdx.x; k < n * TS_POSITION_PLACES;
       k += TS_POSITION_THREADS)
    t->value[k] = 0;
  for (int k = threadIdx.x; k <= n; k += TS_POSITION_THREADS)
    t->offsets[k] = __ldg(s.offsets + bag + k);
}

/* Values of the places from PLACE0 on, but the last one of all. */
static __device__ void ts_table_fill(ts_place_table *t,
                                     const ts_position_slot &s, int64_t bag,
                                     int place0, int thread, int n_threads) {
  const int n = ts_table_bags(s, bag);
  const int64_t to = t->offsets[n];
#pragma unroll 4
  for (int64_t i = t->offsets[0] + thread; i < to; i += n_threads) {
    const int place = __ldg(s.positions + i), at = place - place0;
    if (at < 0 || at >= TS_POSITION_PLACES || place >= s.n - 1) continue;
    const int own = ts_last_at(n, i, [=](int k) { return t->offsets[k]; });
    t->value[own * TS_POSITION_PLACES + at] = __ldg(s.value + i);
  }
}

static __device__ __forceinline__ double
ts_table_sum(double sum, const ts_place_table *t, int n, int place) {
#pragma unroll 8
  for (int k = 0; k < n; k++)
    sum += (double)t->value[k * TS_POSITION_PLACES + place];
  return sum;
}

/* The places from PLACE0 on of slot S.  The first warp adds what the others
 * have filled in before. */
static __device__ double ts_sum_places(ts_place_table *tables,
                                       const ts_position_slot &s, int place0,
                                       double sum) {
  const int thread = (int)threadIdx.x - 32,
            n_threads = TS_POSITION_THREADS - 32;
  int64_t bag = 0;
  for (int round = 0; bag < s.n_bags + TS_POSITION_BAGS; round++) {
    ts_place_table *next = &tables[round % 2], *full = &tables[1 - round % 2];
    if (bag < s.n_bags) ts_table_clear(next, s, bag);
    __syncthreads();
    if (thread >= 0 && bag < s.n_bags)
      ts_table_fill(next, s, bag, place0, thread, n_threads);
    if (thread < 0 && round > 0)
      sum = ts_table_sum(sum, full, ts_table_bags(s, bag - TS_POSITION_BAGS),
                         (int)threadIdx.x);
    __syncthreads();
    bag += TS_POSITION_BAGS;
  }
  return sum;
}

/* Values of the last place among 2048 ids, in order. */
struct ts_last_place {
  float value[TS_POSITION_IDS];
  int count[TS_POSITION_THREADS / 32];
};

/* From id I on, before TO; returns their number.  A warp has 128 ids. */
static __device__ int ts_pick_last(ts_last_place *p, const ts_position_slot &s,
                                   int64_t i, int64_t to) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  uint32_t votes[4];
  int own = 0, before = 0, all = 0;
  for (int k = 0; k < 4; k++) {
    const int64_t at = i + (warp * 4 + k) * 32 + lane;
    votes[k] = __ballot_sync(0xffffffffu,
                             at < to && __ldg(s.positions + at) >= s.n - 1);
    own += __popc(votes[k]);
  }
  if (lane == 0) p->count[warp] = own;
  __syncthreads();
  for (int w = 0; w < TS_POSITION_THREADS / 32; w++) {
    if (w < warp) before += p->count[w];
    all += p->count[w];
  }
  for (int k = 0; k < 4; k++) {
    const int at = before + __popc(votes[k] & ((1u << lane) - 1));
    if (votes[k] >> lane & 1)
      p->value[at] = __ldg(s.value + i + (warp * 4 + k) * 32 + lane);
    before += __popc(votes[k]);
  }
  __syncthreads();
  return all;
}

/* Sums are those of the first thread. */
static __device__ double ts_sum_last(ts_last_place *p,
                                     const ts_position_slot &s, double sum) {
  const int64_t to = __ldg(s.offsets + s.n_bags);
  for (int64_t i = __ldg(s.offsets); i < to; i += TS_POSITION_IDS) {
    const int n = ts_pick_last(p, s, i, to);
    if (threadIdx.x == 0)
      for (int k = 0; k < n; k++) sum += (double)p->value[k];
    __syncthreads();
  }
  return sum;
}

static __global__ void __launch_bounds__(TS_POSITION_THREADS)
    ts_sum_positions_kernel(const __grid_constant__ ts_position_sums a) {
  __shared__ ts_place_table tables[2];
  __shared__ ts_last_place picked;
  const int first = a.first[blockIdx.y], end = a.first[blockIdx.y + 1];
  const ts_position_slot &head = a.args.slot[first];
  const bool last = blockIdx.x == gridDim.x - 1;
  const int place0 = last ? head.n - 1 : (int)blockIdx.x * TS_POSITION_PLACES;
  const int place = place0 + (int)threadIdx.x;
  const bool mine =
      last ? threadIdx.x == 0 : threadIdx.x < 32 && place < head.n - 1;
  if (!last && place0 >= head.n - 1) return;
  double sum = mine ? head.sum[place] : 0;
  for (int k = first; k < end; k++)
    sum = last ? ts_sum_last(&picked, a.args.slot[k], sum)
               : ts_sum_places(tables, a.args.slot[k], place0, sum);
  if (mine) head.sum[place] = sum;
}

static_assert(sizeof(ts_position_sums) <= 4096, "too many slots");

/* ---- narrow -------------------------------------------------------------- */

static __global__ void __launch_bounds__(TS_POSITION_THREADS)
    ts_narrow_kernel(float *dst, const double *src, int64_t n) {
  ts_each<TS_POSITION_THREADS>(n, [=](int64_t i) { dst[i] = (float)src[i]; });
}

/* ---- launches ------------------------------------------------------------ */

static int64_t most() {
  return 64 * (int64_t)ts_cuda_gpu_now()->n_sms;
}

ts_err ts_cuda_weigh_positions(const ts_position_args *a) {
  if (a->n_slots == 0 || a->most_ids == 0) return TS_OK;
  const int64_t n = ts_ceil_div(a->most_ids, 4 * TS_POSITION_THREADS);
  const dim3 grid(ts_grid(n, 1, most()), (unsigned)a->n_slots);
  return TS_CUDA_LAUNCH(ts_weigh_positions_kernel, {grid, TS_POSITION_THREADS},
                        *a);
}

ts_err ts_cuda_sum_positions(const ts_position_args *a) {
  ts_position_sums p;
  int32_t most = 0;
  if (a->n_slots == 0 || a->most_ids == 0) return TS_OK;
  p.args = *a;
  p.n_groups = 0;
  for (int32_t k = 0; k < a->n_slots; k++) {
    if (k == 0 || a->slot[k].sum != a->slot[k - 1].sum)
      p.first[p.n_groups++] = (uint8_t)k;
    most = a->slot[k].n > most ? a->slot[k].n : most;
  }
  p.first[p.n_groups] = (uint8_t)a->n_slots;
  const int64_t n = ts_ceil_div(most - 1, TS_POSITION_PLACES) + 1;
  const dim3 grid(ts_grid(n, 1, TS_GRID_X_MAX), (unsigned)p.n_groups);
  return TS_CUDA_LAUNCH(ts_sum_positions_kernel, {grid, TS_POSITION_THREADS},
                        p);
}

ts_err ts_cuda_narrow(float *dst, const double *src, int64_t n) {
  if (n == 0) return TS_OK;
  return TS_CUDA_LAUNCH(
      ts_narrow_kernel,
      {ts_grid(n, TS_POSITION_THREADS, most()), TS_POSITION_THREADS}, dst, src,
      n);
}
