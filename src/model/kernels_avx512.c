/* kernels_avx512.c - the layers' kernels for AVX-512. */
#include <math.h>
#include <omp.h>

#include "base/mem.h"
#include "runtime/backends.h"

#define TS_WIDTH 16
#define TS_REGISTER ts_model_kernels_avx512
#if defined(__x86_64__)
#pragma GCC target(                                                            \
    "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,prefer-vector-width=512")
#endif
#pragma GCC optimize("fp-contract=fast")
#include "model/kernels_version.h"
