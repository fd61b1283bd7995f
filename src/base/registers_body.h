/* registers_body.h - floats of a register, for files that are compiled once for
 * each instruction set.  Compilers keep vectors of more than that in memory. */
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>
#endif
#if defined(__AVX512F__)
#define LANES 16
#elif defined(__AVX2__)
#define LANES 8
#else
#define LANES 4
#endif
/* Registers of the widest sweep: not all, as loads and weights need some. */
enum { WIDEST = LANES == 16 ? 16 : 12 };
