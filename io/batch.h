/* batch.h - this rank's part of one global batch, on the host.
 * Functions are Local. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/slices.h"
#include "sparse/kjt.h"

/* What a loss over all items, or over the batch's (ts_task_meets), wants to
 * know of a micro-batch. */
typedef struct ts_all_items {
  ts_slices slices;
  int64_t n_targets; /* of its local samples */
} ts_all_items;

/* The first sample of micro-batch I of N, of a rank's N_LOCAL samples. */
static inline int64_t ts_micro_start(int64_t n_local, int64_t i, int64_t n) {
  return n_local * i / n;
}

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
  /* With such a loss: the batch's micro-batches (run.accumulate; 1 in
   * evaluations).  NULL without. */
  const ts_all_items *all_items;
  /* Times of tokens, where the deck has them and the batch is for a model. */
  ts_event_times times;
  void *owner; /* the loader's bookkeeping */
} ts_batch;

/* Ids of a feature's bag I but for the items that its sample brings along. */
static inline int64_t ts_batch_given_ids(const ts_batch *b, int32_t feature,
                                         int32_t i) {
  const int64_t n = ts_jagged_length(&b->kjt.features[feature], i);
  return b->all_items ? n - ts_slices_length(b->all_items->slices, i) : n;
}

/* The (micro-)batch's slices; without a loss over all items they are empty. */
static inline ts_slices ts_batch_slices(const ts_batch *b) {
  return b->all_items ? b->all_items->slices : (ts_slices){0, 0, 0};
}
