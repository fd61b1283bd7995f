/* kernels_avx2.c - the layers' kernels for AVX2. */
#include <math.h>
#include <omp.h>

#include "base/mem.h"
#include "runtime/backends.h"

#define TS_WIDTH 8
#define TS_REGISTER ts_model_kernels_avx2
#if defined(__x86_64__)
#pragma GCC target("avx2,fma")
#endif
#pragma GCC optimize("fp-contract=fast")
#include "model/kernels_version.h"
