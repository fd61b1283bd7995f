/* entries.cu - the kernels around the row update (sparse/entries.h): entries of
 * a batch's ids, of rows that are summed already; where keys lie; sums of rows.
 *
 * Host memory of the caller goes by value, in a launch's parameters. */
#include <string.h>

#include "cuda/sparse/features.cuh"

extern "C" {
#include "sparse/entries.h"
}

enum {
  TS_ENTRY_THREADS = 256,  /* of a block */
  TS_ENTRY_FEATURES = 320, /* by value: kernel parameters of 4 KB */
  TS_FIND_ROWS = 256       /* of a launch, a thread for each */
};

/* ---- a batch's ids ------------------------------------------------------- */

/* Bags and bases of more than TS_ENTRY_FEATURES features lie in device
 * memory. */
struct ts_entries_params {
  uint32_t *keys, *order, *bag_of;
  float *bag_scale;
  const int64_t *offsets;
  const int32_t *rows;
  const int64_t *far; /* (n_features + 1), (n_features); or NULL: here */
  int64_t bag_start[TS_ENTRY_FEATURES + 1];
  uint32_t row_base[TS_ENTRY_FEATURES]; /* a group has less than 2^32 rows */
  int32_t n_features;
};
static_assert(sizeof(ts_entries_params) <= 4096, "kernel parameters");

/* The first bag of feature F; the first row of its table. */
static __device__ __forceinline__ int64_t
ts_entry_first_bag(const ts_entries_params &p, int f) {
  return p.far ? p.far[f] : p.bag_start[f];
}
static __device__ __forceinline__ uint32_t
ts_entry_first_row(const ts_entries_params &p, int f) {
  return p.far ? (uint32_t)p.far[p.n_features + 1 + f] : p.row_base[f];
}

/* The feature that has BAG. */
static __device__ __forceinline__ int
ts_entry_feature(const ts_entries_params &p, int64_t bag) {
  return ts_last_at(p.n_features, bag,
                    [&](int f) { return ts_entry_first_bag(p, f); });
}

/* How many of the warp's ends, which ascend, are at most I; 31 at most. */
static __device__ __forceinline__ int ts_entry_bag(uint32_t end, uint32_t i) {
  int bag = 0;
#pragma unroll
  for (int half = 16; half > 0; half /= 2)
    if (__shfl_sync(0xffffffffu, end, bag + half - 1) <= i) bag += half;
  return bag;
}

/* A warp has 32 bags after the other: a lane knows the end and the rows of one,
 * and all lanes go over the ids of all of them, each asking whose one is. */
static __global__ void __launch_bounds__(TS_ENTRY_THREADS)
    ts_entries_kernel(const __grid_constant__ ts_entries_params p) {
  const int lane = (int)threadIdx.x % 32;
  const int64_t warp =
      ((int64_t)blockIdx.x * TS_ENTRY_THREADS + threadIdx.x) / 32;
  const int64_t warps = (int64_t)gridDim.x * (TS_ENTRY_THREADS / 32);
  const int64_t last = ts_entry_first_bag(p, p.n_features);
  for (int64_t first = ts_entry_first_bag(p, 0) + 32 * warp; first < last;
       first += 32 * warps) {
    const int64_t own = first + lane, from = p.offsets[first];
    const int n_bags = last - first < 32 ? (int)(last - first) : 32;
    uint32_t end = 0xffffffffu, base = 0;
    if (lane < n_bags) {
      const int64_t at = p.offsets[own], to = p.offsets[own + 1];
      end = (uint32_t)(to - from);
      base = ts_entry_first_row(p, ts_entry_feature(p, own));
      if (p.bag_scale)
        p.bag_scale[own] = to > at ? __fdiv_rn(1.0f, (float)(to - at)) : 1.0f;
    }
    const int64_t n = __shfl_sync(0xffffffffu, end, n_bags - 1);
    for (int64_t k = 0; k < n; k += 32) {
      const int bag = ts_entry_bag(end, (uint32_t)(k + lane));
      const uint32_t row_base = __shfl_sync(0xffffffffu, base, bag);
      const int64_t i = from + k + lane;
      if (k + lane >= n) continue;
      p.keys[i] = row_base + (uint32_t)p.rows[i];
      p.order[i] = p.bag_of ? (uint32_t)i : (uint32_t)(first + bag);
      if (p.bag_of) p.bag_of[i] = (uint32_t)(first + bag);
    }
  }
}

static ts_err entries_launch(const ts_entries_args *a, const int64_t *far) {
  const int32_t n = a->n_features;
  const int64_t n_bags = a->bag_start[n] - a->bag_start[0];
  ts_entries_params p = {};
  p.keys = a->keys;
  p.order = a->order;
  p.bag_of = a->bag_of;
  p.bag_scale = a->bag_scale;
  p.offsets = a->offsets;
  p.rows = a->rows;
  p.n_features = n;
  p.far = far;
  if (!far) {
    memcpy(p.bag_start, a->bag_start, sizeof(int64_t) * (size_t)(n + 1));
    for (int32_t i = 0; i < n; i++) p.row_base[i] = (uint32_t)a->row_base[i];
  }
  return TS_CUDA_LAUNCH(
      ts_entries_kernel,
      ts_cuda_strided(n_bags, TS_ENTRY_THREADS, TS_ENTRY_THREADS), p);
}

ts_err ts_cuda_entries(const ts_entries_args *a) {
  return ts_with_features(a, TS_ENTRY_FEATURES, [=](const int64_t *far) {
    return entries_launch(a, far);
  });
}

/* ---- rows that are summed ------------------------------------------------ */

static __global__ void __launch_bounds__(TS_ENTRY_THREADS)
    ts_append_kernel(ts_append_args a) {
  ts_each<TS_ENTRY_THREADS>(a.n, [&](int64_t k) {
    const int64_t i = a.first + k;
    a.keys[i] = a.from[k];
    a.order[i] = (uint32_t)i;
    a.at[i] = a.offset + k * a.dim;
  });
}

static __global__ void __launch_bounds__(TS_ENTRY_THREADS)
    ts_add_kernel(float *to, const float *from, int64_t n) {
  ts_each<TS_ENTRY_THREADS>(
      n, [&](int64_t i) { to[i] = __fadd_rn(to[i], from[i]); });
}

/* A warp for each row; no two have the same. */
static __global__ void __launch_bounds__(TS_ENTRY_THREADS)
    ts_add_rows_kernel(ts_add_rows_args a) {
  const int64_t rows = TS_ENTRY_THREADS / 32;
  for (int64_t i = blockIdx.x * rows + threadIdx.x / 32; i < a.n;
       i += gridDim.x * rows) {
    float *to = a.to + (int64_t)a.keys[i] * a.dim;
    const float *from = a.sums + i * a.dim;
    for (int32_t c = (int32_t)(threadIdx.x % 32); c < a.dim; c += 32)
      to[c] = __fadd_rn(to[c], from[c]);
  }
}

/* Equal keys lie beside each other: the first of them sets the bit. */
static __global__ void __launch_bounds__(TS_ENTRY_THREADS)
    ts_mark_rows_kernel(ts_mark_rows_args a) {
  ts_each<TS_ENTRY_THREADS>(a.n, [&](int64_t i) {
    const uint32_t key = a.keys[i];
    if (i == 0 || a.keys[i - 1] != key)
      atomicOr(a.bits + key / 32, 1u << key % 32);
  });
}

/* A warp for each row, of N elements of type T. */
template <typename T>
static __global__ void __launch_bounds__(TS_ENTRY_THREADS)
    ts_take_rows_kernel(ts_take_rows_args a, int64_t n) {
  const int64_t rows = TS_ENTRY_THREADS / 32;
  for (int64_t i = blockIdx.x * rows + threadIdx.x / 32; i < a.n;
       i += gridDim.x * rows) {
    T *to = (T *)a.out + i * n;
    const T *from = (const T *)a.from + (int64_t)a.rows[i] * n;
    for (int64_t c = threadIdx.x % 32; c < n; c += 32) to[c] = from[c];
  }
}

static ts_cuda_shape shape_of(int64_t n, int64_t per_block) {
  return ts_cuda_strided(n, per_block, TS_ENTRY_THREADS);
}

ts_err ts_cuda_append(const ts_append_args *a) {
  if (a->n == 0) return TS_OK;
  return TS_CUDA_LAUNCH(ts_append_kernel, shape_of(a->n, TS_ENTRY_THREADS), *a);
}

ts_err ts_cuda_add(float *to, const float *from, int64_t n) {
  if (n == 0) return TS_OK;
  return TS_CUDA_LAUNCH(ts_add_kernel, shape_of(n, TS_ENTRY_THREADS), to, from,
                        n);
}

ts_err ts_cuda_add_rows(const ts_add_rows_args *a) {
  if (a->n == 0) return TS_OK;
  return TS_CUDA_LAUNCH(ts_add_rows_kernel,
                        shape_of(a->n, TS_ENTRY_THREADS / 32), *a);
}

ts_err ts_cuda_mark_rows(const ts_mark_rows_args *a) {
  if (a->n == 0) return TS_OK;
  return TS_CUDA_LAUNCH(ts_mark_rows_kernel, shape_of(a->n, TS_ENTRY_THREADS),
                        *a);
}

ts_err ts_cuda_take_rows(const ts_take_rows_args *a) {
  const ts_cuda_shape shape = shape_of(a->n, TS_ENTRY_THREADS / 32);
  if (a->n == 0) return TS_OK;
  if (a->row_bytes % 4)
    return TS_CUDA_LAUNCH(ts_take_rows_kernel<uint16_t>, shape, *a,
                          a->row_bytes / 2);
  return TS_CUDA_LAUNCH(ts_take_rows_kernel<uint32_t>, shape, *a,
                        a->row_bytes / 4);
}

/* ---- where keys lie ------------------------------------------------------ */

struct ts_find_params {
  const uint32_t *keys;
  int64_t n;
  int64_t *at; /* (m) device memory */
  int32_t m;
  int64_t row[TS_FIND_ROWS];
};
static_assert(sizeof(ts_find_params) <= 4096, "kernel parameters");

static __global__ void __launch_bounds__(TS_FIND_ROWS)
    ts_find_kernel(ts_find_params p) {
  const int k = (int)threadIdx.x;
  if (k >= p.m) return;
  int64_t low = 0, high = p.n;
  while (low < high) {
    const int64_t mid = low + (high - low) / 2;
    if ((int64_t)p.keys[mid] < p.row[k])
      low = mid + 1;
    else
      high = mid;
  }
  p.at[k] = low;
}

/* To AT (m), device memory. */
static ts_err find_launch(const ts_find_args *a, int64_t *at) {
  ts_err err = TS_OK;
  for (int32_t k = 0; k < a->m && err == TS_OK; k += TS_FIND_ROWS) {
    ts_find_params p = {};
    p.keys = a->keys;
    p.n = a->n;
    p.at = at + k;
    p.m = a->m - k < TS_FIND_ROWS ? a->m - k : TS_FIND_ROWS;
    memcpy(p.row, a->row + k, sizeof(int64_t) * (size_t)p.m);
    err = TS_CUDA_LAUNCH(ts_find_kernel, {1, TS_FIND_ROWS}, p);
  }
  return err;
}

/* The host waits: it needs the numbers. */
ts_err ts_cuda_find(const ts_find_args *a) {
  ts_err err = TS_OK;
  const size_t bytes = (size_t)a->m * sizeof(int64_t);
  int64_t *at = NULL;
  TS_TRY(ts_cuda_take(&at, bytes, TS_TAG_SPARSE));
  TS_TRY(find_launch(a, at));
  TS_TRY(ts_cuda_fetch(a->at, at, bytes));
done:
  ts_cuda_give(at, bytes, TS_TAG_SPARSE);
  return err;
}
