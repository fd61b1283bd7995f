/* kernels_avx2.c - the sparse kernels for AVX2. */
#include <omp.h>

#include "base/mem.h"
#include "base/rng.h"
#include "runtime/backends.h"
#include "sparse/row_update.h"
#include "sparse/sort.h"

#define TS_VERSION TS_ISA_AVX2
#define TS_REGISTER ts_sparse_kernels_avx2
/* Vector types are lowered before inlining: the target has to be set before
 * the bodies. */
#if defined(__x86_64__)
#pragma GCC target("avx2,fma,f16c")
#endif
#include "sparse/kernels_version.h"
