/* kernels_ref.c - the sparse kernels in plain C: complete, and the oracle in
 * tests. */
#include <omp.h>

#include "base/mem.h"
#include "base/rng.h"
#include "runtime/backends.h"
#include "sparse/row_update.h"
#include "sparse/sort.h"

#define TS_VERSION TS_ISA_REF
#define TS_REGISTER ts_sparse_kernels_ref
#include "sparse/kernels_version.h"
