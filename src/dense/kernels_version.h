/* kernels_version.h - the dense kernels of one instruction set: included once
 * by each kernels_*.c, which says which (TS_REGISTER) and sets the compiler's
 * target before the bodies. */
#ifndef TS_DENSE_KERNELS_VERSION_H
#define TS_DENSE_KERNELS_VERSION_H

#include "dense/interact_body.h"
#include "dense/update_body.h"

static ts_err with_scratch(const ts_interact_args *a, bool backward) {
  ts_err err = TS_OK;
  const int n_threads = omp_get_max_threads();
  const int64_t each = ts_interact_work(n_vectors(a), a->dim);
  float *more = NULL, *scratch = a->work;
  if (n_threads > a->work_threads) {
    TS_TRY(ts_mem_array(&more, each * n_threads, sizeof *more,
                        TS_TAG_ACTIVATIONS));
    scratch = more;
  }
#pragma omp parallel
  {
    float *own = scratch + each * omp_get_thread_num();
    memset(own, 0, (size_t)each * sizeof *own); /* the padding stays so */
#pragma omp for schedule(static)
    for (int64_t b = 0; b < a->batch; b++)
      if (backward)
        interact_grad_one(a, b, own);
      else
        interact_one(a, b, own);
  }
done:
  ts_mem_free(more);
  return err;
}

static ts_err forward(const ts_interact_args *a) {
  return with_scratch(a, false);
}

static ts_err backward(const ts_interact_args *a) {
  return with_scratch(a, true);
}

static ts_err update(const ts_dense_update_args *a) {
#pragma omp parallel
  update_part(a, omp_get_thread_num(), omp_get_num_threads());
  return TS_OK;
}

void TS_REGISTER(ts_kernels *k) {
  k->interact_forward = forward;
  k->interact_backward = backward;
  k->dense_update = update;
}

#endif
