/* cuda_numbers.h - numbers for the cases of kernels: the same each time. */
#ifndef TS_TESTS_CUDA_NUMBERS_H
#define TS_TESTS_CUDA_NUMBERS_H

#include <stdint.h>

uint32_t bits(void);
int32_t below(int32_t n);
float float_of(uint32_t);
/* A zero, a denormal, an infinity, NaN, the largest, a tie of either 16-bit
 * type. */
float special(void);

#endif
