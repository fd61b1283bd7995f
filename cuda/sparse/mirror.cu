/* mirror.cu - copies of indexes: which rows ids have (index_find), and what
 * follows the host's changes (put_rows, meet_rows).
 *
 * A bucket is a line of 64 bytes.  Four threads look for an id: each loads a
 * quarter of the bucket, so that a warp asks for eight lines at once; the first
 * has the fingerprints, the others four rows each.  Where a fingerprint is
 * right the row's id is read.  All threads of a warp go on until its eight ids
 * are found, or known not to be there; nearly all are in their first bucket. */
#include <cub/device/device_select.cuh>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>

#include "cuda/runtime/cuda_impl.h"
#include "cuda/runtime/each.cuh"

extern "C" {
#include "sparse/index_impl.h"
#include "sparse/mirror.h"
}

enum { TS_MIRROR_THREADS = 256, TS_MIRROR_LANES = 4 };
static_assert(sizeof(bucket) == TS_MIRROR_LANES * sizeof(uint4), "lanes");
static_assert(SLOTS == 4 * (TS_MIRROR_LANES - 1), "four rows a lane");

static const uint32_t ts_whole_warp = 0xffffffffu;

/* ---- index_find ---------------------------------------------------------- */

/* Id number I of all; *TABLE: whose. */
static __device__ __forceinline__ int64_t
ts_mirror_id(const ts_index_find_args &a, int64_t i, ts_mirror_table *table) {
  const ts_mirror_part p = a.parts[ts_last_at(
      a.n_parts, i, [&](int32_t k) { return __ldg(&a.parts[k].first); })];
  const uint32_t *half = (const uint32_t *)p.ids + 2 * (i - p.first);
  *table = a.tables[p.table];
  return (int64_t)((uint64_t)__ldg(half + 1) << 32 | __ldg(half));
}

/* The row, without the first, among the four of this lane that has ID, or -1.
 * PRINTS: their fingerprints. */
static __device__ __forceinline__ int32_t ts_mirror_match(const int64_t *ids,
                                                          int64_t id,
                                                          uint32_t prints,
                                                          uint8_t print,
                                                          const uint4 &rows) {
  const uint32_t row[4] = {rows.x, rows.y, rows.z, rows.w};
  int32_t found = -1;
#pragma unroll
  for (int s = 0; s < 4; s++)
    if ((uint8_t)(prints >> 8 * s) == print && __ldg(ids + row[s]) == id)
      found = (int32_t)row[s];
  return found;
}

/* The row of ID, or -1; of four threads that ask for the same.  The whole warp
 * comes; ASKED: there is an id. */
static __device__ __forceinline__ int32_t ts_mirror_find(
    const ts_mirror_table &t, const int64_t *ids, int64_t id, bool asked) {
  const int lane = (int)threadIdx.x % TS_MIRROR_LANES;
  const uint64_t key = ts_index_key(id);
  const uint8_t print = ts_index_print(key);
  int64_t b = asked ? ts_index_home(key, t.n_buckets) : 0;
  int32_t row = -1;
  while (__any_sync(ts_whole_warp, asked)) {
    uint4 v = make_uint4(0, 0, 0, 0);
    if (asked) v = __ldg((const uint4 *)(const void *)(t.buckets + b) + lane);
    const uint32_t x = __shfl_sync(ts_whole_warp, v.x, 0, TS_MIRROR_LANES);
    const uint32_t y = __shfl_sync(ts_whole_warp, v.y, 0, TS_MIRROR_LANES);
    const uint32_t z = __shfl_sync(ts_whole_warp, v.z, 0, TS_MIRROR_LANES);
    const uint32_t past = __shfl_sync(ts_whole_warp, v.w, 0, TS_MIRROR_LANES);
    int32_t found = -1;
    if (asked && lane)
      found = ts_mirror_match(ids, id,
                              lane == 1   ? x
                              : lane == 2 ? y
                                          : z,
                              print, v);
#pragma unroll
    for (int by = 1; by < TS_MIRROR_LANES; by *= 2)
      found = max(found, __shfl_xor_sync(ts_whole_warp, found, by));
    if (asked) row = found;
    if (found >= 0 || past == 0) asked = false;
    b = b + 1 < t.n_buckets ? b + 1 : 0;
  }
  return row;
}

static __global__ void __launch_bounds__(TS_MIRROR_THREADS)
    ts_index_find_kernel(const __grid_constant__ ts_index_find_args a) {
  const int64_t step = (int64_t)gridDim.x * TS_MIRROR_THREADS / TS_MIRROR_LANES;
  const int lane = (int)threadIdx.x;
  int64_t first = /* of the warp's eight */
      ((int64_t)blockIdx.x * TS_MIRROR_THREADS + lane / 32 * 32) /
      TS_MIRROR_LANES;
  for (; first < a.n; first += step) {
    const int64_t i = first + lane % 32 / TS_MIRROR_LANES;
    ts_mirror_table t = {};
    int64_t id = 0;
    if (i < a.n) id = ts_mirror_id(a, i, &t);
    const int64_t *ids = a.ids + t.base + TS_INDEX_FIRST_ROW;
    const int32_t found = ts_mirror_find(t, ids, id, i < a.n);
    if (i >= a.n || lane % TS_MIRROR_LANES) continue;
    int32_t row = found + TS_INDEX_FIRST_ROW;
    if (a.ahead && row && __ldg(a.born + t.base + row) >= a.ahead) row = 0;
    a.rows[i] = row || !a.missed ? row : -1;
  }
}
static_assert(TS_INDEX_FIRST_ROW == 1, "none found is row 0");

/* ---- ids that have no row ------------------------------------------------ */

struct ts_is_missed {
  const int32_t *rows;
  __device__ bool operator()(uint32_t i) const {
    return rows[i] < 0;
  }
};

typedef struct ts_missed_call {
  ts_index_find_args a;
  void *temp;
  size_t bytes;
} ts_missed_call;

static ts_err select_missed(const ts_missed_call *c, size_t *bytes,
                            cudaStream_t stream) {
  const auto all = thrust::make_counting_iterator((uint32_t)0);
  const auto flags =
      thrust::make_transform_iterator(all, ts_is_missed{c->a.rows});
  return TS_CUDA(cub::DeviceSelect::Flagged(c->temp, *bytes, all, flags,
                                            c->a.missed, c->a.n_missed,
                                            (int32_t)c->a.n, stream));
}

static ts_err missed_call(const void *arg, cudaStream_t stream) {
  const ts_missed_call *c = (const ts_missed_call *)arg;
  size_t bytes = c->bytes;
  return select_missed(c, &bytes, stream);
}

static __global__ void __launch_bounds__(TS_MIRROR_THREADS)
    ts_missed_ids_kernel(const __grid_constant__ ts_index_find_args a) {
  ts_each<TS_MIRROR_THREADS>(*a.n_missed, [&](int64_t k) {
    ts_mirror_table t;
    a.missed_ids[k] = ts_mirror_id(a, a.missed[k], &t);
  });
}

static ts_err list_missed(const ts_index_find_args *a) {
  ts_err err = TS_OK;
  ts_missed_call c;
  memset(&c, 0, sizeof c);
  c.a = *a;
  TS_TRY(select_missed(&c, &c.bytes, ts_cuda_stream_now()));
  TS_TRY(ts_cuda_take(&c.temp, c.bytes, TS_TAG_SPARSE));
  TS_TRY(ts_cuda_call(missed_call, &c, sizeof c));
  TS_TRY(TS_CUDA_LAUNCH(
      ts_missed_ids_kernel,
      ts_cuda_strided(a->n, TS_MIRROR_THREADS, TS_MIRROR_THREADS), *a));
done:
  ts_cuda_give(c.temp, c.bytes, TS_TAG_SPARSE);
  return err;
}

ts_err ts_cuda_index_find(const ts_index_find_args *a) {
  if (a->n == 0) return a->n_missed ? ts_cuda_zero(a->n_missed, 4) : TS_OK;
  TS_DO(
      TS_CUDA_LAUNCH(ts_index_find_kernel,
                     ts_cuda_strided(a->n, TS_MIRROR_THREADS / TS_MIRROR_LANES,
                                     TS_MIRROR_THREADS),
                     *a));
  return a->missed ? list_missed(a) : TS_OK;
}

/* ---- put_rows, meet_rows ------------------------------------------------- */

/* Word K of all rows, of N each, of type T. */
template <typename T>
static __global__ void __launch_bounds__(TS_MIRROR_THREADS)
    ts_put_rows_kernel(ts_put_rows_args a, int64_t n) {
  ts_each<TS_MIRROR_THREADS>(a.n * n, [&](int64_t k) {
    const int64_t i = k / n, c = k - i * n;
    const uint32_t row = a.rows[i];
    if (ts_puts_row(&a, row))
      ((T *)a.to)[(int64_t)(row - a.low) * n + c] =
          a.from ? ((const T *)a.from)[k] : 0;
  });
}

template <typename T> static ts_err put_rows(const ts_put_rows_args *a) {
  const int64_t n = a->row_bytes / (int64_t)sizeof(T);
  return TS_CUDA_LAUNCH(
      ts_put_rows_kernel<T>,
      ts_cuda_strided(a->n * n, TS_MIRROR_THREADS, TS_MIRROR_THREADS), *a, n);
}

ts_err ts_cuda_put_rows(const ts_put_rows_args *a) {
  if (a->n == 0) return TS_OK;
  return a->row_bytes % 4 ? put_rows<uint16_t>(a) : put_rows<uint32_t>(a);
}

static __global__ void __launch_bounds__(TS_MIRROR_THREADS)
    ts_meet_rows_kernel(ts_meet_rows_args a) {
  ts_each<TS_MIRROR_THREADS>(a.n, [&](int64_t k) {
    const uint32_t key = a.keys[k];
    if (k && a.keys[k - 1] == key) return;
    a.seen[key]++;
    a.last[key] = a.pass;
  });
}

ts_err ts_cuda_meet_rows(const ts_meet_rows_args *a) {
  if (a->n == 0) return TS_OK;
  return TS_CUDA_LAUNCH(
      ts_meet_rows_kernel,
      ts_cuda_strided(a->n, TS_MIRROR_THREADS, TS_MIRROR_THREADS), *a);
}
