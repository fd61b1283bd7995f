/* cuda_fake_dense.cc - kernels of the dense side. */
#include "tests/support/emulated/cuda_fake_emulated.h"

#include "cuda/dense/cross_launch.cuh"
#include "cuda/dense/dense_update_run.cuh"
#include "cuda/dense/flat_run.cuh"
#include "cuda/dense/interact_launch.cuh"
#include "cuda/dense/loss_run.cuh"
#include "cuda/dense/mask_launch.cuh"

#define K TS_FAKE_KERNEL
#define CROSS(T, vectors)                                                      \
  K(ts_cross_kernel<T, vectors>), K(ts_cross_grad_kernel<T, vectors>)
#define INTERACT(aligned)                                                      \
  K(ts_interact_kernel<aligned>), K(ts_interact_half_kernel<aligned>),         \
      K(ts_interact_grad_kernel<aligned, false>),                              \
      K(ts_interact_grad_kernel<aligned, true>),                               \
      K(ts_interact_half_grad_kernel<aligned, false>),                         \
      K(ts_interact_half_grad_kernel<aligned, true>)

const ts_fake_body ts_fake_dense[] = {
    CROSS(float, false),
    CROSS(float, true),
    CROSS(unsigned short, false),
    CROSS(unsigned short, true),
    K(ts_add_part_kernel<false>),
    K(ts_add_part_kernel<true>),
    K(ts_fm_kernel),
    K(ts_fm_grad_kernel),
    INTERACT(false),
    INTERACT(true),
    K(ts_clip_kernel),
    K(ts_copies_kernel),
    K(ts_dense_stats_kernel),
    K(ts_dense_update_kernel),
    K(ts_half_rows_kernel<ts_code_vector<ts_code_bf16, 1>>),
    K(ts_half_rows_kernel<ts_code_vector<ts_code_bf16, 4>>),
    K(ts_look_kernel<float4>),
    K(ts_look_kernel<float>),
    K(ts_squares_kernel),
    K(ts_sums_kernel<1>),
    K(ts_sums_kernel<2>),
    K(ts_bce_kernel),
    K(ts_bce_sum_kernel),
    K(ts_tally_kernel),
    K(ts_tally_ring_kernel),
    K(ts_tally_sum_kernel),
    K(ts_mask_kernel<float, float>),
    K(ts_mask_kernel<float, unsigned short>),
    K(ts_mask_kernel<unsigned short, unsigned short>),
    K(ts_mask_sums_kernel),
    K(ts_widen_bf16_kernel),
    {nullptr, nullptr}};
