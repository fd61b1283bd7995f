/* entries_launch.cuh - from the arguments of sparse/entries.h to launches.
 * cuda/entries.cu launches; tests define TS_CUDA_LAUNCH and run the same on
 * the CPU.  MOST: blocks of a grid. */
#ifndef TS_CUDA_ENTRIES_LAUNCH_CUH
#define TS_CUDA_ENTRIES_LAUNCH_CUH

#include <string.h>

#include "cuda/entries_kernels.cuh"
#include "cuda/grid.h"

/* Features [f, f + n). */
static ts_err ts_entries_features(const ts_entries_args *a, int32_t f,
                                  int32_t n, int64_t most,
                                  cudaStream_t stream) {
  const int64_t n_bags = a->bag_start[f + n] - a->bag_start[f];
  ts_entries_params p;
  if (n_bags == 0) return TS_OK;
  p.keys = a->keys;
  p.order = a->order;
  p.bag_of = a->bag_of;
  p.bag_scale = a->bag_scale;
  p.offsets = a->offsets;
  p.rows = a->rows;
  p.n_features = n;
  memcpy(p.bag_start, a->bag_start + f, sizeof(int64_t) * (size_t)(n + 1));
  for (int32_t i = 0; i < n; i++) p.row_base[i] = (uint32_t)a->row_base[f + i];
  return TS_CUDA_LAUNCH(ts_entries_kernel,
                        dim3(ts_grid(n_bags, TS_ENTRY_THREADS, most)),
                        dim3(TS_ENTRY_THREADS), 0, stream, p);
}

static ts_err ts_entries_launch(const ts_entries_args *a, int64_t most,
                                cudaStream_t stream) {
  ts_err err = TS_OK;
  for (int32_t f = 0; f < a->n_features && err == TS_OK;
       f += TS_ENTRY_FEATURES) {
    const int32_t left = a->n_features - f;
    err = ts_entries_features(
        a, f, left < TS_ENTRY_FEATURES ? left : TS_ENTRY_FEATURES, most,
        stream);
  }
  return err;
}

static ts_err ts_append_launch(const ts_append_args *a, int64_t most,
                               cudaStream_t stream) {
  if (a->n == 0) return TS_OK;
  return TS_CUDA_LAUNCH(ts_append_kernel,
                        dim3(ts_grid(a->n, TS_ENTRY_THREADS, most)),
                        dim3(TS_ENTRY_THREADS), 0, stream, *a);
}

static ts_err ts_add_launch(float *to, const float *from, int64_t n,
                            int64_t most, cudaStream_t stream) {
  if (n == 0) return TS_OK;
  return TS_CUDA_LAUNCH(ts_add_kernel,
                        dim3(ts_grid(n, TS_ENTRY_THREADS, most)),
                        dim3(TS_ENTRY_THREADS), 0, stream, to, from, n);
}

static ts_err ts_add_rows_launch(const ts_add_rows_args *a, int64_t most,
                                 cudaStream_t stream) {
  if (a->n == 0) return TS_OK;
  return TS_CUDA_LAUNCH(ts_add_rows_kernel,
                        dim3(ts_grid(a->n, TS_ENTRY_THREADS / 32, most)),
                        dim3(TS_ENTRY_THREADS), 0, stream, *a);
}

/* To AT (m), device memory. */
static ts_err ts_find_launch(const ts_find_args *a, int64_t *at,
                             cudaStream_t stream) {
  ts_err err = TS_OK;
  for (int32_t k = 0; k < a->m && err == TS_OK; k += TS_FIND_ROWS) {
    ts_find_params p;
    p.keys = a->keys;
    p.n = a->n;
    p.at = at + k;
    p.m = a->m - k < TS_FIND_ROWS ? a->m - k : TS_FIND_ROWS;
    memcpy(p.row, a->row + k, sizeof(int64_t) * (size_t)p.m);
    err = TS_CUDA_LAUNCH(ts_find_kernel, dim3(1), dim3(TS_FIND_ROWS), 0,
                         stream, p);
  }
  return err;
}

#endif
