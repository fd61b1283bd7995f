/* rounding.cuh - 16-bit floats and their stochastic rounding, as base/dtype.h
 * and base/rng.h have them: the same bits for the same random words. */
#pragma once

#include <stdint.h>
#include <string.h>

#include "cuda/runtime/grid.h"

TS_CUDA_BOTH inline uint32_t ts_bits_of(float f) {
  uint32_t u;
  memcpy(&u, &f, sizeof u);
  return u;
}

TS_CUDA_BOTH inline float ts_float_of(uint32_t u) {
  float f;
  memcpy(&f, &u, sizeof f);
  return f;
}

TS_CUDA_BOTH inline float ts_wide_bf16(uint16_t h) {
  return ts_float_of((uint32_t)h << 16);
}

/* Exponent and mantissa moved into place and scaled by 2^112, which is right
 * for subnormals too; infinities and NaN need their exponent set. */
TS_CUDA_BOTH inline float ts_wide_f16(uint16_t h) {
  const uint32_t u = ts_bits_of(ts_float_of((h & 0x7fffu) << 13) * 0x1p112f);
  const uint32_t special = (h & 0x7c00u) == 0x7c00u ? 0x7f800000u : 0;
  return ts_float_of(u | (h & 0x8000u) << 16 | special);
}

/* F to bf16 by the random word R. */
TS_CUDA_BOTH inline uint16_t ts_round_bf16(float f, uint32_t r) {
  const uint32_t u = ts_bits_of(f);
  if ((u & 0x7f800000u) == 0x7f800000u) /* infinite or NaN, which stays one */
    return (uint16_t)(u >> 16 | ((u & 0x7fffffu) ? 0x40u : 0));
  const uint32_t v = u + (r & 0xffffu);
  if ((v & 0x7f800000u) == 0x7f800000u)
    return (uint16_t)((u >> 16 & 0x8000u) | 0x7f7fu);
  return (uint16_t)(v >> 16);
}

/* F to f16 by the random word R: |F| as a multiple of its unit in f16 (2^-24
 * for subnormals), plus what is left of it. */
TS_CUDA_BOTH inline uint16_t ts_round_f16(float f, uint32_t r) {
  const uint32_t u = ts_bits_of(f), sign = u >> 16 & 0x8000u;
  const uint32_t mag = u & 0x7fffffffu;
  if (mag >= 0x7f800000u)
    return (uint16_t)(sign | (mag > 0x7f800000u ? 0x7e00u : 0x7c00u));
  const uint32_t exponent = mag >> 23;
  const uint32_t mantissa = (mag & 0x7fffffu) | 0x800000u;
  const uint32_t drop = exponent >= 113 ? 13 : 126 - exponent;
  if (drop > 31) return (uint16_t)sign; /* below 2^-32 of the unit */
  uint32_t base = (mag - 0x38000000u) >> 13;
  if (exponent < 113) base = drop > 24 ? 0 : mantissa >> drop;
  const uint32_t unit = 1u << drop, rest = mantissa & (unit - 1);
  base += rest + (r & (unit - 1)) >= unit;
  return (uint16_t)(sign | (base < 0x7c00u ? base : 0x7bffu));
}

/* out = Philox4x32-10(counter, key). */
TS_CUDA_BOTH inline void ts_philox_words(uint32_t out[4], uint64_t a,
                                         uint32_t b, uint32_t c, uint64_t key) {
  uint32_t c0 = (uint32_t)a, c1 = (uint32_t)(a >> 32), c2 = b, c3 = c;
  uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
#pragma unroll
  for (int round = 0; round < 10; round++) {
    const uint64_t p0 = (uint64_t)0xD2511F53u * c0;
    const uint64_t p1 = (uint64_t)0xCD9E8D57u * c2;
    c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
    c1 = (uint32_t)p1;
    c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
    c3 = (uint32_t)p0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  out[0] = c0;
  out[1] = c1;
  out[2] = c2;
  out[3] = c3;
}
