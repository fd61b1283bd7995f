/* cuda_lookup_emulated.cc - the CUDA lookup on the CPU: the same choice of
 * instance, the same kernels, launches by the emulation. */
#include "cuda_emulate_run.h"

#include "cuda/lookup_launch.cuh"

extern "C" {
#include "cuda_lookup_emulated.h"
}

ts_err emulated_lookup(const ts_lookup_args *a, const ts_weight_grad_args *g,
                       const ts_lookup_machine *m) {
  return ts_lookup_launch(a, g, m, NULL);
}
