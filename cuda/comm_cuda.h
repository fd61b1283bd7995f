/* comm_cuda.h - what comms ask of the CUDA backend; private to cuda/. */
#ifndef TS_CUDA_COMM_H
#define TS_CUDA_COMM_H

#include "cuda/cuda_impl.h"

/* Entries of ts_device_ops (runtime/device.h): memory of a GPU; its place on
 * the bus, which is what NCCL tells GPUs apart by; a stream that waits for the
 * host's word. */
bool ts_cuda_is_remote(ts_device *, const void *p);
ts_err ts_cuda_identify(ts_device *, char id[TS_DEVICE_ID]);
ts_err ts_cuda_wait_word(ts_lane *, const uint64_t *word, uint64_t least);

/* dst (n) = sum of the W arrays at SRC, STRIDE elements apart, in rank order
 * (or TS_MAX, TS_MIN): the bits of src/runtime/comm_reduce.c.  REDUCTION 0, 1,
 * 2: sum, max, min. */
ts_err ts_cuda_reduce_ranks(cudaStream_t, void *dst, const void *src, int w,
                            int64_t stride, int64_t n, ts_dtype, int reduction);

#endif
