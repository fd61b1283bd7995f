/* flat_emulated.cc - the GPU's kernels over flat arrays and its dense
 * optimizers on the CPU. */
#include "tests/support/emulated/cuda_emulate_run.h"

#include "tests/kernels/cuda_flat.h"
#include "cuda/dense/dense_update_run.cuh"
#include "cuda/dense/flat_run.cuh"

static emulated_run runner;
static int64_t most = 1000;

static ts_err half_rows(const ts_half_args *a) {
  return ts_half_rows_on(runner, a, most);
}
static ts_err look(const ts_look_args *a) {
  return ts_look_on(runner, a, most);
}
static ts_err copies(const ts_copies_args *a) {
  return ts_copies_on(runner, a);
}
static ts_err swap(float *a, float *b, int64_t n) {
  return ts_swap_on(runner, a, b, n, most);
}
static ts_err shorten(float *x, int64_t n, ts_dtype dtype) {
  return ts_shorten_on(runner, x, n, dtype, most);
}
static ts_err widen(float *x, int64_t n, ts_dtype dtype) {
  return ts_widen_on(runner, x, n, dtype, most);
}
static ts_err squares(const float *x, int64_t n, double *sum) {
  return ts_squares_on(runner, x, n, sum);
}
static ts_err clip(double *norm, double *factor, double c) {
  return ts_clip_on(runner, norm, factor, c);
}
static ts_err dense_update(const ts_dense_update_args *a, int32_t n) {
  return ts_dense_update_on(runner, a, n);
}
static ts_err dense_stats(const ts_dense_update_args *a, double *stats) {
  return ts_dense_stats_on(runner, a, stats);
}

static void kernels(ts_kernels *k) {
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

static void set_blocks(int n) {
  most = n;
}

extern "C" {
const block_target flat_emulated = {
    kernels,        emulated_task, emulated_send_aligned,
    emulated_fetch, free,          set_blocks,
    nullptr,        nullptr};
}
