/* slices.h - the items that each sample of a batch brings along, where a loss
 * is over all of them.
 *
 * Sample p of a (micro-)batch of n_global, all ranks', has the items from
 * n_items p / n_global to n_items (p + 1) / n_global, the numbers rounded down:
 * together they have each item once, and a rank's samples have a run of them,
 * as a table that is cut by rows is held.
 * All of it is Local, and the same on the host and on GPUs. */
#pragma once

#include <stdint.h>

#ifdef __CUDACC__
#define TS_SLICES_INLINE static inline __host__ __device__
#else
#define TS_SLICES_INLINE static inline
#endif

typedef struct ts_slices {
  int64_t n_items;  /* 0: samples bring none */
  int64_t place;    /* p of the first local sample */
  int64_t n_global; /* samples of all ranks; 0: no batch */
} ts_slices;

/* The item that local sample B's begin with. */
TS_SLICES_INLINE int64_t ts_slices_at(ts_slices s, int64_t b) {
  const int64_t p = s.place + b;
  if (!s.n_items) return 0;
  return s.n_items / s.n_global * p + s.n_items % s.n_global * p / s.n_global;
}

/* Items of the local samples before sample B; B may be the number of samples.
 */
TS_SLICES_INLINE int64_t ts_slices_before(ts_slices s, int64_t b) {
  return ts_slices_at(s, b) - ts_slices_at(s, 0);
}

/* Those of sample B. */
TS_SLICES_INLINE int64_t ts_slices_length(ts_slices s, int64_t b) {
  return ts_slices_at(s, b + 1) - ts_slices_at(s, b);
}
