/* cross.cu - what models do by element on the GPU: cross layers, factorisation
 * machines, rows side by side (cuda/dense/cross_kernels.cuh). */
#include "cuda/runtime/cuda_impl.h"

#include "cuda/dense/cross_launch.cuh"

/* As many blocks as run at once: grids go on with a stride. */
static int64_t most(void) {
  return (int64_t)ts_cuda_gpu_now()->n_sms * (2048 / TS_CROSS_THREADS);
}

static ts_err cross_forward(const ts_cross_args *a) {
  return ts_cross_launch(a, false, most(), ts_cuda_stream_now());
}

static ts_err cross_backward(const ts_cross_args *a) {
  return ts_cross_launch(a, true, most(), ts_cuda_stream_now());
}

static ts_err fm_forward(const ts_fm_args *a) {
  return ts_fm_launch(a, false, most(), ts_cuda_stream_now());
}

static ts_err fm_backward(const ts_fm_args *a) {
  return ts_fm_launch(a, true, most(), ts_cuda_stream_now());
}

static ts_err copy_parts(const ts_join_args *a, bool split) {
  ts_kernels views;
  ts_cuda_kernels_views(&views);
  return ts_join_copy(a, split, views.copy_rows);
}

static ts_err join_rows(const ts_join_args *a) {
  return a->add ? ts_join_add(a, most(), ts_cuda_stream_now())
                : copy_parts(a, false);
}

static ts_err split_rows(const ts_join_args *a) {
  return copy_parts(a, true);
}

void ts_cuda_kernels_cross(ts_kernels *k) {
  k->cross_forward = cross_forward;
  k->cross_backward = cross_backward;
  k->fm_forward = fm_forward;
  k->fm_backward = fm_backward;
  k->join_rows = join_rows;
  k->split_rows = split_rows;
}
