/* flat_run.cuh - from the entries over flat arrays to launches.  RUN launches
 * (cuda/runtime/stream_run.cuh; tests have one for the CPU); MOST: blocks of
 * a grid. */
#ifndef TS_CUDA_FLAT_RUN_CUH
#define TS_CUDA_FLAT_RUN_CUH

#include "cuda/dense/flat_kernels.cuh"
#include "cuda/runtime/grid.h"

static inline dim3 ts_flat_grid(int64_t n, int64_t most) {
  return dim3(ts_grid(n, TS_FLAT_THREADS, most));
}

/* ---- rows ---------------------------------------------------------------- */

template <class Run>
ts_err ts_half_rows_on(Run &run, const ts_half_args *a, int64_t most) {
  typedef ts_code_vector<ts_code_bf16, 4> four;
  typedef ts_code_vector<ts_code_bf16, 1> one;
  const int64_t all = a->rows * a->n;
  const bool fits = ts_flat_fits(a->from) && (uintptr_t)a->to % 8 == 0 &&
                    (a->n | a->to_stride | a->from_stride) % 4 == 0;
  if (all <= 0) return TS_OK;
  if (fits)
    return run.launch(ts_half_rows_kernel<four>, ts_flat_grid(all / 4, most),
                      TS_FLAT_THREADS, (four::coded *)a->to,
                      (const four::plain *)a->from, a->to_stride / 4,
                      a->from_stride / 4, a->n / 4, all / 4);
  return run.launch(ts_half_rows_kernel<one>, ts_flat_grid(all, most),
                    TS_FLAT_THREADS, (one::coded *)a->to,
                    (const one::plain *)a->from, a->to_stride, a->from_stride,
                    a->n, all);
}

template <class Run>
ts_err ts_look_on(Run &run, const ts_look_args *a, int64_t most) {
  const int64_t all = a->rows * a->n;
  if (all <= 0) return TS_OK;
  if (ts_flat_fits(a->x) && (a->n | a->stride) % 4 == 0)
    return run.launch(ts_look_kernel<float4>, ts_flat_grid(all / 4, most),
                      TS_FLAT_THREADS, (const float4 *)a->x, a->stride / 4,
                      a->n / 4, all / 4, a->bad);
  return run.launch(ts_look_kernel<float>, ts_flat_grid(all, most),
                    TS_FLAT_THREADS, a->x, a->stride, a->n, all, a->bad);
}

/* ---- pieces -------------------------------------------------------------- */

template <class Run> ts_err ts_copies_on(Run &run, const ts_copies_args *a) {
  ts_copies_params p = {};
  int64_t blocks = 0;
  p.n_pieces = 0;
  for (int32_t k = 0; k < a->n_pieces; k++) {
    if (a->piece[k].n <= 0) continue;
    p.first[p.n_pieces] = (uint32_t)blocks;
    p.piece[p.n_pieces++] = a->piece[k];
    blocks += ts_ceil_div(a->piece[k].n, TS_FLAT_CHUNK);
  }
  if (!blocks) return TS_OK;
  if (blocks > TS_GRID_X_MAX)
    return ts_fail(TS_ERR_INTERNAL, "copies of %lld blocks", (long long)blocks);
  return run.launch(ts_copies_kernel, dim3((unsigned)blocks), TS_FLAT_THREADS,
                    p);
}

/* ---- two arrays ---------------------------------------------------------- */

template <class Run>
ts_err ts_swap_on(Run &run, float *a, float *b, int64_t n, int64_t most) {
  const int64_t four = ts_flat_fits(a) && ts_flat_fits(b) ? n / 4 * 4 : 0;
  ts_err err = TS_OK;
  if (four)
    TS_TRY(run.launch(ts_swap_kernel<float4>, ts_flat_grid(four / 4, most),
                      TS_FLAT_THREADS, (float4 *)a, (float4 *)b, four / 4));
  if (n > four)
    TS_TRY(run.launch(ts_swap_kernel<float>, ts_flat_grid(n - four, most),
                      TS_FLAT_THREADS, a + four, b + four, n - four));
done:
  return err;
}

/* In place a thread would overwrite what another has yet to read: through
 * scratch. */
template <class Run>
ts_err ts_shorten_on(Run &run, float *x, int64_t n, ts_dtype dtype,
                     int64_t most) {
  ts_err err = TS_OK;
  void *half = NULL;
  const size_t bytes = (size_t)(n > 0 ? n : 0) * sizeof(uint16_t);
  if (!bytes) return TS_OK;
  TS_TRY(run.take(&half, bytes));
  TS_TRY(run.launch(dtype == TS_BF16 ? ts_shorten_kernel<ts_code_bf16>
                                     : ts_shorten_kernel<ts_code_f16>,
                    ts_flat_grid(n, most), TS_FLAT_THREADS, (uint16_t *)half,
                    (const float *)x, n));
  TS_TRY(run.copy(x, half, bytes));
done:
  if (half) run.give(half, bytes);
  return err;
}

template <class Run>
ts_err ts_widen_on(Run &run, float *x, int64_t n, ts_dtype dtype,
                   int64_t most) {
  ts_err err = TS_OK;
  void *half = NULL;
  const size_t bytes = (size_t)(n > 0 ? n : 0) * sizeof(uint16_t);
  if (!bytes) return TS_OK;
  TS_TRY(run.take(&half, bytes));
  TS_TRY(run.copy(half, x, bytes));
  TS_TRY(run.launch(dtype == TS_BF16 ? ts_widen_kernel<ts_code_bf16>
                                     : ts_widen_kernel<ts_code_f16>,
                    ts_flat_grid(n, most), TS_FLAT_THREADS, x,
                    (const uint16_t *)half, n));
done:
  if (half) run.give(half, bytes);
  return err;
}

/* ---- sums ---------------------------------------------------------------- */

static inline dim3 ts_sum_grid(int64_t n_blocks) {
  return dim3(ts_grid(n_blocks, TS_SUM_GROUPS, TS_GRID_X_MAX));
}

template <class Run>
ts_err ts_squares_on(Run &run, const float *x, int64_t n, double *sum) {
  ts_err err = TS_OK;
  void *sums = NULL;
  const int64_t n_blocks = n > 0 ? ts_ceil_div(n, TS_SUM_BLOCK) : 0;
  const size_t bytes = (size_t)n_blocks * sizeof(double);
  if (!bytes) return TS_OK;
  TS_TRY(run.take(&sums, bytes));
  TS_TRY(run.launch(ts_squares_kernel, ts_sum_grid(n_blocks), TS_SUM_THREADS, x,
                    n, (double *)sums));
  TS_TRY(run.launch(ts_sums_kernel<1>, dim3(1), TS_FLAT_THREADS, sum,
                    (const double *)sums, n_blocks));
done:
  if (sums) run.give(sums, bytes);
  return err;
}

template <class Run>
ts_err ts_clip_on(Run &run, double *norm, double *factor, double most) {
  return run.launch(ts_clip_kernel, dim3(1), 1, norm, factor, most);
}

#endif
