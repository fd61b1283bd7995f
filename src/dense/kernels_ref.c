/* kernels_ref.c - the dense kernels in plain C: complete, and the oracle in
 * tests. */
#include <math.h>
#include <omp.h>

#include "base/mem.h"
#include "dense/update.h"
#include "runtime/backends.h"

#define TS_WIDTH 4
#define TS_REGISTER register_common
static void register_common(ts_kernels *);
#include "dense/kernels_version.h"

void ts_dense_kernels_ref(ts_kernels *k) {
  register_common(k);
  k->loss = ts_loss_host;
}
