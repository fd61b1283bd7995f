/* cuda_lookup_emulated.cc - the CUDA lookup on the CPU: the same choice of
 * instance, the same kernels, launches by the emulation. */
extern "C" {
#include "base/err.h"
#include "runtime/kernels.h"
}
#include "cuda_emulate.h"

typedef void *cudaStream_t;
#define TS_CUDA_LAUNCH(kernel, grid, block, shared_bytes, stream, ...)         \
  ((void)(stream),                                                             \
   ts_emulate((grid), (block), (shared_bytes), [&] { kernel(__VA_ARGS__); }),  \
   TS_OK)
#include "cuda/lookup_launch.cuh"

extern "C" {
#include "cuda_lookup_emulated.h"
}

ts_err emulated_lookup(const ts_lookup_args *a, const ts_weight_grad_args *g,
                       const ts_lookup_machine *m) {
  return ts_lookup_launch(a, g, m, NULL);
}
