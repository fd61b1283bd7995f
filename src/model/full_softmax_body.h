/* full_softmax_body.h - blocks of the softmax over all items, for each
 * instruction set. */
#pragma once

#include "model/norm_body.h"

/* Row I of the block as it counts: see ts_full_softmax_args.target_ids. */
TS_BODY void count_wanted(const ts_full_softmax_args *a, int64_t i) {
  float *restrict s = a->s + i * a->n_columns;
  const int64_t id = a->row_ids[i], own = i + a->own;
  const float kept = own >= 0 && own < a->n_columns ? s[own] : 0;
#pragma omp simd
  for (int64_t k = 0; k < a->n_columns; k++)
    s[k] = a->target_ids[k] == id ? TS_NO_SCORE : s[k] - a->column_shift[k];
  if (own >= 0 && own < a->n_columns) s[own] = kept - a->column_shift[own];
}

static ts_err full_softmax_part(const ts_full_softmax_args *a) {
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < a->n_block; i++) {
    const float *s = a->s + i * a->n_columns;
    if (a->target_ids) count_wanted(a, i);
    float sum = 0, most = most_of(s, 1, (int32_t)a->n_columns);
    TS_LANES_SUM(sum, k, a->n_columns, exp_below(s[k] - most));
    a->part[2 * i] = most;
    a->part[2 * i + 1] = sum;
  }
  return TS_OK;
}

/* exp_below goes as far above 0 as rounding can take a score over the log of
 * the sum that it is a part of. */
static ts_err full_softmax_slopes(const ts_full_softmax_args *a) {
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < a->n_block; i++) {
    float *s = a->s + i * a->n_columns;
    const float f = a->factor[2 * i], log_sum = a->factor[2 * i + 1];
    if (a->target_ids) count_wanted(a, i);
#pragma omp simd
    for (int64_t k = 0; k < a->n_columns; k++)
      s[k] = f * exp_below(s[k] - log_sum);
  }
  return TS_OK;
}
