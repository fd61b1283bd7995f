/* unpack_emulated.cc - the kernels of input dist's receiving side on the CPU:
 * the same launches, by the emulation. */
#include <stdlib.h>

extern "C" {
#include "base/err.h"
}
#include "cuda_emulate.h"

typedef void *cudaStream_t;
#define TS_CUDA_LAUNCH(kernel, grid, block, shared_bytes, stream, ...)         \
  ((void)(stream),                                                             \
   ts_emulate((grid), (block), (shared_bytes), [&] { kernel(__VA_ARGS__); }),  \
   TS_OK)
#include "cuda/unpack_launch.cuh"
#include "cuda_unpack.h"

static int64_t blocks_now = TS_GRID_X_MAX;

static ts_err unpack(const ts_unpack_args *a) {
  return ts_unpack_launch(a, blocks_now, NULL);
}

static ts_err bag_means(const ts_bag_means_args *a) {
  return ts_bag_means_launch(a, blocks_now, NULL);
}

/* Of the very size, so that sanitizers see what lies beyond. */
static void *send(const void *p, size_t bytes) {
  void *to = malloc(bytes ? bytes : 1);
  if (!to) abort();
  memcpy(to, p, bytes);
  return to;
}

static void fetch(void *to, const void *sent, size_t bytes) {
  memcpy(to, sent, bytes);
}

static void set_blocks(int most) {
  blocks_now = most ? most : TS_GRID_X_MAX;
}

extern "C" {
const unpack_target unpack_emulated = {unpack, bag_means,  send,    fetch,
                                       free,   set_blocks, nullptr, nullptr};
}
