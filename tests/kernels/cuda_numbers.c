/* cuda_numbers.c - a generator of 64 bits, and the floats that are special. */
#include "tests/kernels/cuda_numbers.h"

#include <string.h>

static uint64_t seed = 1;

uint32_t bits(void) {
  seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (uint32_t)(seed >> 32);
}

int32_t below(int32_t n) {
  return (int32_t)(bits() % (uint32_t)n);
}

float float_of(uint32_t u) {
  float f;
  memcpy(&f, &u, 4);
  return f;
}

float special(void) {
  static const uint32_t all[] = {
      0,          0x80000000, 1,          0x807fffff, 0x7f800000, 0xff800000,
      0x7fc00000, 0xffc12345, 0x7f800001, 0x7f7fffff, 0xff7fffff, 0x3f808000,
      0x3f818000, 0x3f801000, 0x3f803000, 0x477fe000, 0x477ff000, 0xc7800000,
      0x33000000, 0x33000001, 0x38000000, 0x387fffff, 0xb7ffffff, 0x007fffff};
  return float_of(all[below((int32_t)(sizeof all / 4))]);
}
