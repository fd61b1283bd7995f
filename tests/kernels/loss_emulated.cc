/* loss_emulated.cc - the GPU's loss and metrics on the CPU. */
#include "tests/support/emulated/cuda_emulate_run.h"

#include "tests/kernels/cuda_loss.h"
#include "cuda/dense/loss_run.cuh"

static ts_err bce(const ts_bce_args *a) {
  return ts_bce_run(a, emulated_run());
}
static ts_err tally(const ts_tally_args *a) {
  return ts_tally_run(a, emulated_run());
}

static void kernels(ts_kernels *k) {
  k->bce = bce;
  k->tally = tally;
}

static ts_err run(ts_err (*task)(void *), void *arg) {
  return task(arg);
}

/* Numbers that scratch holds are small ones, -1, or NaN. */
static void start() {
  emulated_run::fill = 0xff;
}

extern "C" {
const loss_target loss_emulated = {kernels, run,  emulated_send, emulated_fetch,
                                   free,    true, start,         nullptr};
}
