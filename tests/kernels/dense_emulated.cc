/* dense_emulated.cc - the GPU's kernels of the dot interaction, cross layers,
 * factorisation machines and rows side by side on the CPU. */
#include "tests/support/emulated/cuda_emulate_run.h"

#include "cuda/dense/cross_launch.cuh"
#include "cuda/dense/interact_launch.cuh"
#include "cuda/shard/views_launch.cuh"
#include "tests/kernels/cuda_dense.h"

/* All that there is; little shared memory and few blocks; so little that rows
 * go by chunks of columns and nothing else has room; see also big. */
static const ts_interact_machine machines[] = {{227 << 10, 72 << 10, 1000, 2},
                                               {40 << 10, 9 << 10, 3, 2},
                                               {7 << 10, 7 << 10, 2, 1}};
/* In place of the last one, where vectors are so many that it has no room. */
static const ts_interact_machine big = {24 << 10, 24 << 10, 2, 1};
static int machine;

struct dense_run_emulated : emulated_run {
  ts_err put(void *dst, const void *src, size_t bytes) {
    return ts_put_launch(dst, src, bytes, nullptr);
  }
  template <class K, class P>
  ts_err launch_shared(K kernel, dim3 grid, unsigned block, int64_t bytes,
                       const P &params) {
    return emulated_err(ts_emulate_try(grid, dim3(block), (size_t)bytes,
                                       [&] { kernel(params); }));
  }
};

static ts_err interact(const ts_interact_args *a, bool back) {
  dense_run_emulated run;
  const bool many = machine == 2 && a->n_features > 100;
  return ts_interact_launch(a, back, many ? &big : &machines[machine], run);
}

static int64_t most() {
  return machines[machine].blocks;
}

static ts_err interact_forward(const ts_interact_args *a) {
  return interact(a, false);
}
static ts_err interact_backward(const ts_interact_args *a) {
  return interact(a, true);
}
static ts_err cross_forward(const ts_cross_args *a) {
  return ts_cross_launch(a, false, most(), nullptr);
}
static ts_err cross_backward(const ts_cross_args *a) {
  return ts_cross_launch(a, true, most(), nullptr);
}
static ts_err fm_forward(const ts_fm_args *a) {
  return ts_fm_launch(a, false, most(), nullptr);
}
static ts_err fm_backward(const ts_fm_args *a) {
  return ts_fm_launch(a, true, most(), nullptr);
}
static ts_err copy_rows(const ts_row_args *a) {
  return ts_copy_rows_launch(a, most(), nullptr);
}
static ts_err join_rows(const ts_join_args *a) {
  return a->add ? ts_join_add(a, most(), nullptr)
                : ts_join_copy(a, false, copy_rows);
}
static ts_err split_rows(const ts_join_args *a) {
  return ts_join_copy(a, true, copy_rows);
}

static void kernels(ts_kernels *k) {
  k->interact_forward = k->interact_forward_half = interact_forward;
  k->interact_backward = k->interact_backward_half = interact_backward;
  k->cross_forward = cross_forward;
  k->cross_backward = cross_backward;
  k->fm_forward = fm_forward;
  k->fm_backward = fm_backward;
  k->join_rows = join_rows;
  k->split_rows = split_rows;
}

static void set_machine(int i) {
  machine = i;
}

extern "C" {
const dense_target dense_emulated = {
    kernels,        emulated_task, emulated_send_aligned,
    emulated_fetch, free,          3,
    set_machine,    nullptr,       nullptr};
}
