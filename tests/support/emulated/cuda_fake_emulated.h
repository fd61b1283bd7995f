/* cuda_fake_emulated.h - kernels that the fake CUDA runtime does: those of
 * cuda/, by the emulation (cuda_emulate.h), one launch at a time.  For C++. */
#ifndef TS_TESTS_CUDA_FAKE_EMULATED_H
#define TS_TESTS_CUDA_FAKE_EMULATED_H

#include <utility>

#include "tests/support/emulated/cuda_emulate_run.h"

extern "C" {
#include "tests/support/emulated/cuda_fake_body.h"
}

/* What has a name for the linker is nvcc's. */
#define ts_cross_kernel ts_emulated_cross_kernel
#define ts_cross_grad_kernel ts_emulated_cross_grad_kernel
#define ts_add_part_kernel ts_emulated_add_part_kernel
#define ts_interact_half_kernel ts_emulated_interact_half_kernel
#define ts_interact_half_grad_kernel ts_emulated_interact_half_grad_kernel
#define ts_interact_kernel ts_emulated_interact_kernel
#define ts_interact_grad_kernel ts_emulated_interact_grad_kernel
#define ts_lookup_kernel ts_emulated_lookup_kernel
#define ts_weight_grad_kernel ts_emulated_weight_grad_kernel
#define ts_mask_kernel ts_emulated_mask_kernel
#define ts_mask_sums_kernel ts_emulated_mask_sums_kernel
#define ts_widen_bf16_kernel ts_emulated_widen_bf16_kernel
#define ts_row_tasks ts_emulated_row_tasks
#define ts_row_end_long ts_emulated_row_end_long
#define ts_row_stages ts_emulated_row_stages

/* Runs kernel K; PARAM: where each of its parameters lies. */
template <auto K> struct ts_fake_kernel;
template <class... P, void (*K)(P...)> struct ts_fake_kernel<K> {
  template <size_t... I>
  static void call(const ts_fake_call *c, std::index_sequence<I...>) {
    const unsigned *g = c->grid, *b = c->block;
    ts_emulate(dim3(g[0], g[1], g[2]), dim3(b[0], b[1], b[2]), c->shared,
               [c] { K(*(const P *)c->param[I]...); });
  }
  static void run(const ts_fake_call *c) {
    call(c, std::index_sequence_for<P...>());
  }
};

/* Of a table: template arguments as compilers write them. */
#define TS_FAKE_KERNEL(...)                                                    \
  { #__VA_ARGS__, ts_fake_kernel < __VA_ARGS__> ::run }

#endif
