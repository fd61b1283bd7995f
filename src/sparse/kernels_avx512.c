/* kernels_avx512.c - the sparse kernels for AVX-512. */
#include <omp.h>

#include "base/mem.h"
#include "base/rng.h"
#include "runtime/backends.h"
#include "sparse/row_update.h"
#include "sparse/sort.h"

#define TS_VERSION TS_ISA_AVX512
#define TS_REGISTER ts_sparse_kernels_avx512
/* Vector types are lowered before inlining: the target has to be set before
 * the bodies. */
#if defined(__x86_64__)
#pragma GCC target(                                                            \
    "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,prefer-vector-width=512")
#endif
#include "sparse/kernels_version.h"
