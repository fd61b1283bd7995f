/* sort.h - runs of sorted keys. */
#ifndef TS_CUDA_SORT_H
#define TS_CUDA_SORT_H

#include "cuda/runtime/cuda_impl.h"

/* Enqueues on the current lane: start = first entries of the runs of equal
 * KEYS, *N_RUNS their number, both on the device.  TEMP NULL: only *TEMP_BYTES,
 * its size, is set. */
ts_err ts_cuda_starts(void *temp, size_t *temp_bytes, const uint32_t *keys,
                      int64_t n, uint32_t *start, uint32_t *n_runs);

#endif
