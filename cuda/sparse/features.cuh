/* features.cuh - the first bags and the tables' first rows of features, which
 * lookup.cu, weight_grad.cu and entries.cu have among their parameters, or in
 * device memory where there are too many. */
#pragma once

#include "cuda/runtime/cuda_impl.h"
#include "cuda/runtime/each.cuh"

/* launch(far) for the bags of A, if there are any: one launch for any number of
 * features.  FAR: bag_start (n_features + 1) and row_base (n_features) in
 * device memory; NULL: there are at most MOST features, which go by value. */
template <class Args, class Launch>
static ts_err ts_with_features(const Args *a, size_t most, Launch launch) {
  ts_err err = TS_OK;
  const size_t n = (size_t)a->n_features, word = sizeof(int64_t);
  const size_t bytes = n > most ? (2 * n + 1) * word : 0;
  int64_t *far = NULL;
  if (n == 0 || a->bag_start[n] == a->bag_start[0]) return TS_OK;
  TS_TRY(ts_cuda_take(&far, bytes, TS_TAG_SPARSE));
  if (far) {
    TS_TRY(ts_cuda_put(far, a->bag_start, (n + 1) * word));
    TS_TRY(ts_cuda_put(far + n + 1, a->row_base, n * word));
  }
  TS_TRY(launch(far));
done:
  ts_cuda_give(far, bytes, TS_TAG_SPARSE);
  return err;
}
