/* cuda_lookup_emulated.cc - the CUDA lookup on the CPU: the same choice of
 * instance, the same kernels, launches by the emulation. */
#include "tests/support/emulated/cuda_emulate_run.h"

#include "cuda/sparse/lookup_launch.cuh"

extern "C" {
#include "tests/kernels/cuda_lookup_emulated.h"
}

ts_err emulated_lookup(const ts_lookup_args *a, const ts_weight_grad_args *g,
                       const ts_lookup_machine *m) {
  emulated_run run;
  emulated_n_launches = emulated_n_puts = 0;
  return ts_lookup_launch(run, a, g, m, NULL);
}

int emulated_lookup_launches(int *n_puts) {
  *n_puts = emulated_n_puts;
  return emulated_n_launches;
}
