/* views.cu - what lies between lookup, output dist and the model, on the GPU:
 * rows (cuda/shard/view_rows.cuh), codes (cuda/shard/code_rows.cuh) and
 * positions
 * (cuda/shard/positions.cuh). */
#include <string.h>

#include "cuda/runtime/cuda_impl.h"
extern "C" {
#include "shard/view_kernels.h"
}
#include <cuda_fp16.h>

#include "cuda/shard/views_launch.cuh"

/* Blocks of a piece that are worth having: many rounds of the GPU's. */
static int64_t most(void) {
  return 64 * (int64_t)ts_cuda_gpu_now()->n_sms;
}

static ts_err copy_rows(const ts_row_args *a) {
  return ts_copy_rows_launch(a, most(), ts_cuda_stream_now());
}

static ts_err sum_rows(const ts_row_args *a) {
  return ts_sum_rows_launch(a, most(), ts_cuda_stream_now());
}

static ts_err scale_rows(const ts_scale_args *a) {
  return ts_scale_rows_launch(a, most(), ts_cuda_stream_now());
}

static ts_err code_rows(const ts_code_args *a) {
  return ts_code_rows_launch(a, most(), ts_cuda_stream_now());
}

static ts_err weigh_positions(const ts_position_args *a) {
  return ts_weigh_positions_launch(a, most(), ts_cuda_stream_now());
}

static ts_err sum_positions(const ts_position_args *a) {
  return ts_sum_positions_launch(a, ts_cuda_stream_now());
}

static ts_err narrow(float *dst, const double *src, int64_t n) {
  return ts_narrow_launch(dst, src, n, most(), ts_cuda_stream_now());
}

static ts_err put(void *dst, const void *src, size_t bytes) {
  return ts_put_launch(dst, src, bytes, ts_cuda_stream_now());
}

void ts_cuda_kernels_views(ts_kernels *k) {
  k->copy_rows = copy_rows;
  k->sum_rows = sum_rows;
  k->scale_rows = scale_rows;
  k->code_rows = code_rows;
  k->weigh_positions = weigh_positions;
  k->sum_positions = sum_positions;
  k->narrow = narrow;
  k->put = put;
}
