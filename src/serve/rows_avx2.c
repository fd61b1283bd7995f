/* rows_avx2.c - the lookup of rows in few bits for AVX2. */
#define TS_ROWS_LOOK_UP ts_rows_look_up_avx2
/* Vector types are lowered before inlining: the target has to be set before
 * the bodies. */
#if defined(__x86_64__)
#pragma GCC target("avx2,fma")
#endif
#include "serve/rows_body.h"
