/* entries_launch.cuh - from the arguments of sparse/entries.h to launches.
 * cuda/sparse/entries.cu launches; tests define TS_CUDA_LAUNCH and run the
 * same on
 * the CPU.  MOST: blocks of a grid. */
#ifndef TS_CUDA_ENTRIES_LAUNCH_CUH
#define TS_CUDA_ENTRIES_LAUNCH_CUH

#include <string.h>

#include "cuda/sparse/entries_kernels.cuh"
#include "cuda/runtime/grid.h"
#include "cuda/runtime/put.cuh"

/* FAR: where bags and bases have been put, or NULL. */
static ts_err ts_entries_once(const ts_entries_args *a, const int64_t *far,
                              int64_t most, cudaStream_t stream) {
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
  return TS_CUDA_LAUNCH(ts_entries_kernel,
                        dim3(ts_grid(n_bags, TS_ENTRY_THREADS, most)),
                        dim3(TS_ENTRY_THREADS), 0, stream, p);
}

/* One launch for any number of features: those of more than there is room for
 * are put into device memory before.  RUN gives some in the order of STREAM. */
template <class RUN>
static ts_err ts_entries_launch(RUN &run, const ts_entries_args *a,
                                int64_t most, cudaStream_t stream) {
  ts_err err = TS_OK;
  const size_t n = (size_t)a->n_features, word = sizeof(int64_t);
  void *far = NULL;
  if (n == 0 || a->bag_start[n] == a->bag_start[0]) return TS_OK;
  if (n > TS_ENTRY_FEATURES) {
    TS_TRY(run.take(&far, (2 * n + 1) * word));
    TS_TRY(ts_put_launch(far, a->bag_start, (n + 1) * word, stream));
    TS_TRY(
        ts_put_launch((int64_t *)far + n + 1, a->row_base, n * word, stream));
  }
  TS_TRY(ts_entries_once(a, (const int64_t *)far, most, stream));
done:
  if (far) run.give(far, (2 * n + 1) * word);
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
  return TS_CUDA_LAUNCH(ts_add_kernel, dim3(ts_grid(n, TS_ENTRY_THREADS, most)),
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
    ts_find_params p = {};
    p.keys = a->keys;
    p.n = a->n;
    p.at = at + k;
    p.m = a->m - k < TS_FIND_ROWS ? a->m - k : TS_FIND_ROWS;
    memcpy(p.row, a->row + k, sizeof(int64_t) * (size_t)p.m);
    err = TS_CUDA_LAUNCH(ts_find_kernel, dim3(1), dim3(TS_FIND_ROWS), 0, stream,
                         p);
  }
  return err;
}

#endif
