/* cuda_numbers.h - numbers for the cases of kernels: the same each time.
 * Included by one file of a program. */
#ifndef TS_TESTS_CUDA_NUMBERS_H
#define TS_TESTS_CUDA_NUMBERS_H

#include <stdint.h>
#include <string.h>

static uint64_t seed = 1;

static uint32_t bits(void) {
  seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (uint32_t)(seed >> 32);
}

static int32_t below(int32_t n) {
  return (int32_t)(bits() % (uint32_t)n);
}

static float float_of(uint32_t u) {
  float f;
  memcpy(&f, &u, 4);
  return f;
}

#endif
