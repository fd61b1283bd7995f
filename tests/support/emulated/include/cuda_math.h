/* cuda_math.h - CUDA's arithmetic on the CPU: bits, rounding, 16-bit
 * floats; a part of cuda_runtime.h. */
#pragma once

#include <math.h>
#include <stdint.h>
#include <string.h>

/* ---- arithmetic ---------------------------------------------------------- */

static inline int __popc(uint32_t x) {
  return __builtin_popcount(x);
}
static inline int __ffs(uint32_t x) {
  return __builtin_ffs((int)x);
}
static inline int __clz(uint32_t x) {
  return x ? __builtin_clz(x) : 32;
}
static inline int __clzll(uint64_t x) {
  return x ? __builtin_clzll(x) : 64;
}
static inline uint32_t __brev(uint32_t x) {
  uint32_t y = 0;
  for (int i = 0; i < 32; i++) y |= (x >> i & 1) << (31 - i);
  return y;
}
static inline uint32_t __umulhi(uint32_t a, uint32_t b) {
  return (uint32_t)((uint64_t)a * b >> 32);
}
static inline uint32_t __funnelshift_l(uint32_t lo, uint32_t hi, uint32_t by) {
  return (uint32_t)(((uint64_t)hi << 32 | lo) << (by & 31) >> 32);
}
static inline uint32_t __byte_perm(uint32_t a, uint32_t b, uint32_t s) {
  const uint64_t all = (uint64_t)b << 32 | a;
  uint32_t y = 0;
  for (int i = 0; i < 4; i++)
    y |= (uint32_t)(all >> 8 * (s >> 4 * i & 7) & 0xff) << 8 * i;
  return y;
}

#define TS_MIN_MAX(type)                                                       \
  static inline type min(type a, type b) {                                     \
    return a < b ? a : b;                                                      \
  }                                                                            \
  static inline type max(type a, type b) {                                     \
    return a > b ? a : b;                                                      \
  }
TS_MIN_MAX(int)
TS_MIN_MAX(unsigned)
TS_MIN_MAX(long)
TS_MIN_MAX(unsigned long)
TS_MIN_MAX(long long)
TS_MIN_MAX(unsigned long long)
#undef TS_MIN_MAX
static inline float min(float a, float b) {
  return fminf(a, b);
}
static inline float max(float a, float b) {
  return fmaxf(a, b);
}
static inline double min(double a, double b) {
  return fmin(a, b);
}
static inline double max(double a, double b) {
  return fmax(a, b);
}

static inline float __fdividef(float a, float b) {
  return a / b;
}
static inline float __fadd_rn(float a, float b) {
  return a + b;
}
static inline float __fsub_rn(float a, float b) {
  return a - b;
}
static inline double __dmul_rn(double a, double b) {
  return a * b;
}
static inline double __dsub_rn(double a, double b) {
  return a - b;
}
static inline float __fmul_rn(float a, float b) {
  return a * b;
}
static inline float __fdiv_rn(float a, float b) {
  return a / b;
}
static inline float __fsqrt_rn(float a) {
  return sqrtf(a);
}
/* Also where libm has them. */
static inline float ts_emulated_sinpi(float x) {
  return (float)sin(M_PI * ((double)x - 2 * rint((double)x / 2)));
}
static inline float ts_emulated_cospi(float x) {
  return (float)cos(M_PI * ((double)x - 2 * rint((double)x / 2)));
}
#define sinpif ts_emulated_sinpi
#define cospif ts_emulated_cospi
/* In the range of int. */
static inline int __float2int_rn(float x) {
  return (int)rintf(x);
}

#define TS_BITS(name, to, from)                                                \
  static inline to name(from x) {                                              \
    to y;                                                                      \
    static_assert(sizeof x == sizeof y, "");                                   \
    memcpy(&y, &x, sizeof y);                                                  \
    return y;                                                                  \
  }
TS_BITS(__float_as_uint, unsigned, float)
TS_BITS(__uint_as_float, float, unsigned)

/* ---- 16-bit floats ------------------------------------------------------- */

struct __half {
  unsigned short bits;
};
struct __nv_bfloat16 {
  unsigned short bits;
};
TS_BITS(__ushort_as_half, __half, unsigned short)
TS_BITS(__half_as_ushort, unsigned short, __half)
#undef TS_BITS
float __half2float(__half);
__half __float2half_rn(float);
float __bfloat162float(__nv_bfloat16);
__nv_bfloat16 __float2bfloat16_rn(float);
