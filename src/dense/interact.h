/* interact.h - scratch of the host's interaction kernels.
 * All of it is Local. */
#pragma once

#include <stdint.h>

static inline int64_t ts_interact_padded(int64_t n) {
  return (n + 15) / 16 * 16;
}

/* N rounded up to whole registers of bf16. */
static inline int64_t ts_interact_pairs(int64_t n) {
  return (n + 31) / 32 * 32;
}

/* Floats per thread for N vectors of DIM: the vectors, a matrix of pairs, a
 * few rows of gradients, and a row of out, OUT_STRIDE wide, for when that is
 * of bf16; or what interact_bf16.c needs. */
static inline int64_t ts_interact_work(int32_t n, int32_t dim,
                                       int64_t out_stride) {
  enum { ROWS_OF_GRADIENTS = 4 };
  const int64_t wide = ts_interact_padded(n), np = ts_interact_pairs(n);
  const int64_t plain =
      ts_interact_padded((wide + ROWS_OF_GRADIENTS) * ts_interact_padded(dim) +
                         wide * wide + 64) +
      ts_interact_padded(out_stride);
  const int64_t pairs =
      np * (np > ts_interact_pairs(dim) / 2 ? ts_interact_pairs(dim) / 2 + np
                                            : ts_interact_pairs(dim));
  return plain > pairs ? plain : pairs;
}
