/* views_emulated.cc - the GPU's kernels of views, wires and positions on the
 * CPU. */
#include "tests/support/emulated/cuda_emulate_run.h"

#include "tests/kernels/cuda_views.h"
#include "cuda/shard/views_launch.cuh"

static int64_t most = 1000;

static ts_err copy_rows(const ts_row_args *a) {
  return ts_copy_rows_launch(a, most, nullptr);
}
static ts_err sum_rows(const ts_row_args *a) {
  return ts_sum_rows_launch(a, most, nullptr);
}
static ts_err scale_rows(const ts_scale_args *a) {
  return ts_scale_rows_launch(a, most, nullptr);
}
static ts_err code_rows(const ts_code_args *a) {
  return ts_code_rows_launch(a, most, nullptr);
}
static ts_err weigh_positions(const ts_position_args *a) {
  return ts_weigh_positions_launch(a, most, nullptr);
}
static ts_err sum_positions(const ts_position_args *a) {
  return ts_sum_positions_launch(a, nullptr);
}
static ts_err narrow(float *dst, const double *src, int64_t n) {
  return ts_narrow_launch(dst, src, n, most, nullptr);
}
static ts_err put(void *dst, const void *src, size_t bytes) {
  return ts_put_launch(dst, src, bytes, nullptr);
}

static void kernels(ts_kernels *k) {
  k->copy_rows = copy_rows;
  k->sum_rows = sum_rows;
  k->scale_rows = scale_rows;
  k->code_rows = code_rows;
  k->weigh_positions = weigh_positions;
  k->sum_positions = sum_positions;
  k->narrow = narrow;
  k->put = put;
}

static void set_blocks(int n) {
  most = n;
}

extern "C" {
const block_target views_emulated = {
    kernels,        emulated_task, emulated_send_aligned,
    emulated_fetch, free,          set_blocks,
    nullptr,        nullptr};
}
