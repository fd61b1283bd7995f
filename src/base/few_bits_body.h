/* few_bits_body.h - vectors of the numbers of rows in few bits (few_bits.h),
 * for files that are compiled once for each instruction set. All of it is
 * Local. */
#pragma once

#include <stdint.h>
#include <string.h>

#include "base/registers_body.h"

typedef float ts_vec __attribute__((vector_size(4 * LANES)));
typedef int32_t ts_ivec __attribute__((vector_size(4 * LANES)));
typedef uint64_t ts_qvec __attribute__((vector_size(4 * LANES)));
typedef uint8_t ts_bvec __attribute__((vector_size(LANES)));
typedef uint8_t ts_nvec __attribute__((vector_size(LANES / 2)));

#define TS_FEW_BITS static inline __attribute__((always_inline))

/* Compilers make long ways of the conversions of narrow types: by name where
 * there is an instruction.  int4: each byte in 64 bits, its high half moved
 * into their upper 32. */
#if LANES == 16
TS_FEW_BITS ts_vec ts_vec_of_int8(ts_bvec b) {
  return (ts_vec)_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32((__m128i)b));
}

TS_FEW_BITS ts_qvec ts_quads_of(ts_nvec b) {
  return (ts_qvec)_mm512_cvtepu8_epi64(_mm_set_epi64x(0, (int64_t)b));
}
#elif LANES == 8
TS_FEW_BITS ts_vec ts_vec_of_int8(ts_bvec b) {
  const __m128i x = _mm_set_epi64x(0, (int64_t)b);
  return (ts_vec)_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(x));
}

TS_FEW_BITS ts_qvec ts_quads_of(ts_nvec b) {
  int32_t x;
  memcpy(&x, &b, sizeof x);
  return (ts_qvec)_mm256_cvtepu8_epi64(_mm_cvtsi32_si128(x));
}
#else
TS_FEW_BITS ts_vec ts_vec_of_int8(ts_bvec b) {
  return __builtin_convertvector(__builtin_convertvector(b, ts_ivec), ts_vec);
}

TS_FEW_BITS ts_qvec ts_quads_of(ts_nvec b) {
  return __builtin_convertvector(b, ts_qvec);
}
#endif

/* The least 4 bits of each number, looked up in a table of 16 floats where that
 * is one instruction. */
TS_FEW_BITS ts_vec ts_vec_of_int4(ts_nvec b) {
  const ts_qvec q = ts_quads_of(b);
#if LANES == 16
  const __m512i x = _mm512_mul_epu32((__m512i)q, _mm512_set1_epi64(0x10000001));
  const __m512 floats =
      _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  return (ts_vec)_mm512_permutexvar_ps(x, floats);
#else
  const ts_qvec halves = (q | q << 28) & UINT64_C(0x0000000f0000000f);
#if LANES == 8
  return (ts_vec)_mm256_cvtepi32_ps((__m256i)halves);
#else
  return __builtin_convertvector((ts_ivec)halves, ts_vec);
#endif
#endif
}

/* x y + sum, rounded once in every version. */
TS_FEW_BITS ts_vec ts_vec_fused(ts_vec x, ts_vec y, ts_vec sum) {
#if LANES == 16
  return (ts_vec)_mm512_fmadd_ps((__m512)x, (__m512)y, (__m512)sum);
#elif LANES == 8 && defined(__FMA__)
  return (ts_vec)_mm256_fmadd_ps((__m256)x, (__m256)y, (__m256)sum);
#else
  for (int k = 0; k < LANES; k++) sum[k] = __builtin_fmaf(x[k], y[k], sum[k]);
  return sum;
#endif
}
