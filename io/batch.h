/* batch.h - this rank's part of one global batch, on the host. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "sparse/kjt.h"

typedef struct ts_batch {
  int64_t step;     /* index of the global batch since the run's start */
  int64_t epoch;    /* from 0 */
  int64_t first;    /* index of the first local sample in the data */
  int32_t n;        /* local samples, may be 0 */
  int64_t n_global; /* samples over all ranks */
  bool training;    /* it is trained on: negatives are drawn as for that */
  int32_t n_dense, n_tasks;
  float *labels;     /* (n, n_tasks) */
  float *dense;      /* (n, n_dense) or NULL */
  float *weights;    /* (n) sample weights or NULL: all 1 */
  ts_kjt kjt;        /* (n_features, n) */
  double weight_sum; /* sum of the local sample weights */
  int64_t n_bad;     /* records skipped here: weight 0, empty bags */
  int64_t n_bad_ids; /* ids dropped here */
  /* All the arrays above are in this one block, page-locked where the device
   * has such memory and data.pin_memory says so. */
  const void *arena;
  size_t arena_bytes;
  int64_t n_copied; /* ids copied here after they were read */
  /* With an output over items: the ids that sample b's features of exclude have
   * are left_out[left_out_at[b]] to left_out[left_out_at[b + 1] - 1].  NULL
   * without such an output. */
  const int64_t *left_out_at, *left_out;
  void *owner; /* the loader's bookkeeping */
} ts_batch;
