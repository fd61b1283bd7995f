/* comm_cuda.h - what comms ask of the CUDA backend; private to cuda/.
 * Functions are Local unless they say Collective or Enqueues. */
#ifndef TS_CUDA_COMM_H
#define TS_CUDA_COMM_H

#include "cuda/runtime/cuda_impl.h"

/* dst (n) = sum of the W arrays at SRC, STRIDE elements apart, in rank order
 * (or TS_MAX, TS_MIN): the bits of src/runtime/comm_reduce.c.  REDUCTION 0, 1,
 * 2: sum, max, min. */
ts_err ts_cuda_reduce_ranks(cudaStream_t, void *dst, const void *src, int w,
                            int64_t stride, int64_t n, ts_dtype, int reduction);

#endif
