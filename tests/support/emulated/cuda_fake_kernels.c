/* cuda_fake_kernels.c - launches of the fake CUDA runtime: kernels that are
 * functions of the host run, all others do nothing. */
#include <stdlib.h>
#include <string.h>

#include "tests/support/emulated/cuda_fake_impl.h"

enum { KERNELS = 8, ARGS = 8 };

static struct {
  void (*kernel)(void **);
  const size_t *sizes;
  int n;
} known[KERNELS];
static int n_known;

void ts_cuda_fake_kernel(void (*kernel)(void **), const size_t *sizes, int n) {
  for (int i = 0; i < n_known; i++)
    if (known[i].kernel == kernel) return;
  if (n_known == KERNELS || n > ARGS) abort();
  known[n_known].kernel = kernel;
  known[n_known].sizes = sizes;
  known[n_known++].n = n;
}

ts_work ts_fake_launch_of(const struct cudaKernelNodeParams *p,
                          cudaError_t *e) {
  const dim3 g = p->gridDim, b = p->blockDim;
  ts_work w = {.kind = LAUNCH};
  size_t at = 0;
  *e = !g.x || !g.y || !g.z || !b.x || !b.y || !b.z || b.x * b.y * b.z > 1024
           ? cudaErrorInvalidConfiguration
           : cudaSuccess;
  for (int i = 0; i < n_known; i++) {
    if ((const void *)known[i].kernel != p->func) continue;
    w.kernel = known[i].kernel;
    w.sizes = known[i].sizes;
    w.bytes = (size_t)known[i].n;
    for (int k = 0; k < known[i].n; k++) {
      if (at + w.sizes[k] > FAKE_ARGS) abort();
      memcpy(w.arg + at, p->kernelParams[k], w.sizes[k]);
      at += w.sizes[k];
    }
  }
  return w;
}

void ts_fake_launch_run(const ts_work *w) {
  ts_work copy = *w;
  void *value[ARGS];
  size_t at = 0;
  if (!w->kernel) return;
  for (size_t k = 0; k < w->bytes; k++) {
    value[k] = copy.arg + at;
    at += w->sizes[k];
  }
  w->kernel(value);
}
