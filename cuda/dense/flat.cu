/* flat.cu - what gradients go through, on the GPU: the entries over flat
 * arrays (cuda/dense/flat_kernels.cuh) and the dense optimizers
 * (cuda/dense/dense_update_kernels.cuh). */
#include "cuda/runtime/cuda_impl.h"

#include <cuda_fp16.h>

#include "cuda/dense/dense_update_run.cuh"
#include "cuda/dense/flat_run.cuh"
#include "cuda/runtime/stream_run.cuh"

/* As many blocks as run at once: grids go on with a stride. */
static int64_t most(void) {
  return (int64_t)ts_cuda_gpu_now()->n_sms * (2048 / TS_FLAT_THREADS);
}

static ts_err half_rows(const ts_half_args *a) {
  ts_stream_run run(TS_TAG_DENSE);
  return ts_half_rows_on(run, a, most());
}

static ts_err look(const ts_look_args *a) {
  ts_stream_run run(TS_TAG_DENSE);
  return ts_look_on(run, a, most());
}

static ts_err copies(const ts_copies_args *a) {
  ts_stream_run run(TS_TAG_DENSE);
  return ts_copies_on(run, a);
}

static ts_err swap(float *a, float *b, int64_t n) {
  ts_stream_run run(TS_TAG_DENSE);
  return ts_swap_on(run, a, b, n, most());
}

static ts_err shorten(float *x, int64_t n, ts_dtype dtype) {
  ts_stream_run run(TS_TAG_GRADS);
  return ts_shorten_on(run, x, n, dtype, most());
}

static ts_err widen(float *x, int64_t n, ts_dtype dtype) {
  ts_stream_run run(TS_TAG_GRADS);
  return ts_widen_on(run, x, n, dtype, most());
}

static ts_err squares(const float *x, int64_t n, double *sum) {
  ts_stream_run run(TS_TAG_GRADS);
  return ts_squares_on(run, x, n, sum);
}

static ts_err clip(double *norm, double *factor, double c) {
  ts_stream_run run(TS_TAG_GRADS);
  return ts_clip_on(run, norm, factor, c);
}

static ts_err dense_update(const ts_dense_update_args *a, int32_t n) {
  ts_stream_run run(TS_TAG_DENSE_STATE);
  return ts_dense_update_on(run, a, n);
}

static ts_err dense_stats(const ts_dense_update_args *a, double *stats) {
  ts_stream_run run(TS_TAG_DENSE_STATE);
  return ts_dense_stats_on(run, a, stats);
}

void ts_cuda_kernels_flat(ts_kernels *k) {
  k->half_rows = half_rows;
  k->look = look;
  k->copies = copies;
  k->swap = swap;
  k->shorten = shorten;
  k->widen = widen;
  k->squares = squares;
  k->clip = clip;
  k->dense_update = dense_update;
  k->dense_stats = dense_stats;
}
