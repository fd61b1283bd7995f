/* half.h - f32 to bf16 and back inside vector loops.  All of it is Local. */
#pragma once

#include <stdint.h>
#include <string.h>

/* Nearest even; a NaN stays one. */
static inline uint16_t ts_half_of(float f) {
  uint32_t u;
  memcpy(&u, &f, sizeof u);
  const uint32_t rounded = (u + 0x7fffu + (u >> 16 & 1)) >> 16;
  const uint32_t nan = u >> 16 | 0x40;
  return (uint16_t)((u & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
}

static inline float ts_half_float(uint16_t h) {
  const uint32_t u = (uint32_t)h << 16;
  float f;
  memcpy(&f, &u, sizeof f);
  return f;
}

/* Rows of N floats at a stride to bf16 rows at another. */
void ts_half_rows(uint16_t *dst, int64_t dst_stride, const float *src,
                  int64_t src_stride, int64_t rows, int64_t n);
