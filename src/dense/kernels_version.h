/* kernels_version.h - the dense kernels of one instruction set: included once
 * by each kernels_*.c, which says which (TS_REGISTER) and sets the compiler's
 * target before the bodies. */
#pragma once

#include "dense/cross_body.h"
#include "dense/interact_body.h"
#include "dense/update_body.h"

static ts_err forward(const ts_interact_args *a) {
  return each_sample(a, interact_one);
}

static ts_err backward(const ts_interact_args *a) {
  return each_sample(a, interact_grad_one);
}

static ts_err cross(const ts_cross_args *a) {
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < a->batch; i++)
    if (a->half)
      cross_row_half(a, i);
    else
      cross_row(a, i);
  return TS_OK;
}

static ts_err cross_grad(const ts_cross_args *a) {
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < a->batch; i++) cross_grad_row(a, i);
  return TS_OK;
}

static ts_err fm(const ts_fm_args *a) {
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < a->batch; i++) fm_row(a, i);
  return TS_OK;
}

static ts_err fm_grad(const ts_fm_args *a) {
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < a->batch; i++) fm_grad_row(a, i);
  return TS_OK;
}

/* By blocks of fixed size, added in order: bits don't depend on threads. */
static ts_err stats(const ts_dense_update_args *a, double *out) {
  double *parts;
  const bool lamb = ts_dense_optim_find(a->optim->kind)->rule == TS_RULE_LAMB;
  const ts_update_numbers u = update_numbers(a);
  const int64_t n_blocks = (a->n + STATS_BLOCK - 1) / STATS_BLOCK;
  ts_err err = ts_mem_many(parts, 2 * n_blocks, DENSE_STATE);
  if (err != TS_OK) return err;
#pragma omp parallel for schedule(static)
  for (int64_t b = 0; b < n_blocks; b++) {
    const int64_t from = b * STATS_BLOCK, end = from + STATS_BLOCK;
    stats_block(a, u, lamb, from, end < a->n ? end : a->n, parts + 2 * b);
  }
  double sum[2] = {0};
  for (int64_t b = 0; b < n_blocks; b++) {
    sum[0] += parts[2 * b];
    sum[1] += parts[2 * b + 1];
  }
  out[0] += sum[0];
  out[1] += sum[1];
  ts_mem_free(parts);
  return TS_OK;
}

static ts_err update(const ts_dense_update_args *args, int32_t n) {
  double own[TS_DENSE_PIECES][2] = {{0}};
  ts_dense_update_args a[TS_DENSE_PIECES];
  if (n > TS_DENSE_PIECES)
    return ts_fail(TS_ERR_INTERNAL, "an update of %d pieces", (int)n);
  for (int32_t i = 0; i < n; i++) {
    a[i] = args[i];
    if (a[i].stats || !ts_dense_optim_has_norms(a[i].optim)) continue;
    TS_DO(stats(&a[i], own[i]));
    a[i].stats = own[i];
  }
#pragma omp parallel
  for (int32_t i = 0; i < n; i++)
    update_part(&a[i], omp_get_thread_num(), omp_get_num_threads());
  return TS_OK;
}

void TS_REGISTER(ts_kernels *k) {
  k->interact_forward = forward;
  k->interact_backward = backward;
  k->interact_forward_half = forward;
  k->interact_backward_half = backward;
  k->cross_forward = cross;
  k->cross_backward = cross_grad;
  k->fm_forward = fm;
  k->fm_backward = fm_grad;
  k->dense_update = update;
  k->dense_stats = stats;
}
