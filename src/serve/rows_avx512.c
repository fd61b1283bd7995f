/* rows_avx512.c - the lookup of rows in few bits for AVX-512. */
#define TS_ROWS_LOOK_UP ts_rows_look_up_avx512
/* Vector types are lowered before inlining: the target has to be set before
 * the bodies. */
#if defined(__x86_64__)
#pragma GCC target(                                                            \
    "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,prefer-vector-width=512")
#endif
#include "serve/rows_body.h"
