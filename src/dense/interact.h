/* interact.h - scratch of the host's interaction kernels. */
#ifndef TS_DENSE_INTERACT_H
#define TS_DENSE_INTERACT_H

#include <stdint.h>

static inline int64_t ts_interact_padded(int64_t n) {
  return (n + 15) / 16 * 16;
}

/* Floats per thread for N vectors of DIM: the vectors, a matrix of pairs, a
 * few rows of gradients. */
static inline int64_t ts_interact_work(int32_t n, int32_t dim) {
  enum { ROWS_OF_GRADIENTS = 4 };
  const int64_t wide = ts_interact_padded(n);
  return ts_interact_padded(
      (wide + ROWS_OF_GRADIENTS) * ts_interact_padded(dim) + wide * wide + 64);
}

#endif
