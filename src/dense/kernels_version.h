/* kernels_version.h - the dense kernels of one instruction set: included once
 * by each kernels_*.c, which says which (TS_REGISTER) and sets the compiler's
 * target before the bodies. */
#ifndef TS_DENSE_KERNELS_VERSION_H
#define TS_DENSE_KERNELS_VERSION_H

#include "dense/cross_body.h"
#include "dense/interact_body.h"
#include "dense/update_body.h"

static ts_err with_scratch(const ts_interact_args *a, bool backward) {
  float *scratch;
  const int64_t each = padded(interact_scratch(a));
  ts_err err = ts_mem_array(&scratch, each * omp_get_max_threads(),
                            sizeof *scratch, TS_TAG_ACTIVATIONS);
  if (err != TS_OK) return err;
#pragma omp parallel for schedule(static)
  for (int64_t b = 0; b < a->batch; b++) {
    float *own = scratch + each * omp_get_thread_num();
    if (backward)
      interact_grad_one(a, b, own);
    else
      interact_one(a, b, own);
  }
  ts_mem_free(scratch);
  return TS_OK;
}

static ts_err forward(const ts_interact_args *a) {
  return with_scratch(a, false);
}

static ts_err backward(const ts_interact_args *a) {
  return with_scratch(a, true);
}

static ts_err cross(const ts_cross_args *a) {
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < a->batch; i++) cross_row(a, i);
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

static ts_err update(const ts_dense_update_args *a) {
#pragma omp parallel
  update_part(a, omp_get_thread_num(), omp_get_num_threads());
  return TS_OK;
}

void TS_REGISTER(ts_kernels *k) {
  k->interact_forward = forward;
  k->interact_backward = backward;
  k->cross_forward = cross;
  k->cross_backward = cross_grad;
  k->fm_forward = fm;
  k->fm_backward = fm_grad;
  k->dense_update = update;
}

#endif
