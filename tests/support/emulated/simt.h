/* simt.h - runs the threads of a launch; included by C and C++. */
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* CALL runs KERNEL with VALUE in each thread of the grid, on the calling
 * thread.  SEED draws the order of blocks, of a block's warps and of their
 * lanes; 0: ascending blocks.  True where all went well, else what went wrong
 * is in MESSAGE. */
typedef struct ts_simt_launch {
  ts_emulated_call *call;
  const void *kernel;
  void **value;
  dim3 grid, block;
  size_t shared_bytes;
  uint64_t seed;
} ts_simt_launch;
int ts_simt_run(const ts_simt_launch *, char *message, size_t size);

#ifdef __cplusplus
}
#endif
