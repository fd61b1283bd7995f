/* dtype.h - element types and 16-bit floats.  All of it is Local. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef enum {
  TS_F32,
  TS_BF16,
  TS_F16,
  TS_INT8, /* rows of tables alone, each with a scale and a bias */
  TS_INT4, /* (base/few_bits.h): these are all that numbers come in */
  TS_F64,
  TS_I32,
  TS_I64,
  TS_U8,
  TS_DTYPE_COUNT
} ts_dtype;

/* Bytes of an element; 0 for int8 and int4, which rows alone have. */
static inline size_t ts_dtype_bytes(ts_dtype t) {
  return t == TS_F32 || t == TS_I32    ? 4
         : t == TS_BF16 || t == TS_F16 ? 2
         : t == TS_F64 || t == TS_I64  ? 8
         : t == TS_U8                  ? 1
                                       : 0;
}
const char *ts_dtype_name(ts_dtype t); /* "f32", "bf16", ... */

static inline bool ts_dtype_is_number(ts_dtype t) {
  return t <= TS_INT4;
}
static inline bool ts_dtype_has_scale(ts_dtype t) {
  return t == TS_INT8 || t == TS_INT4;
}
/* Bytes of COLUMNS of a row, from an even one on for int4, without scale and
 * bias. */
static inline int64_t ts_columns_bytes(ts_dtype t, int64_t columns) {
  return t == TS_INT8   ? columns
         : t == TS_INT4 ? (columns + 1) / 2
                        : columns * (int64_t)ts_dtype_bytes(t);
}
/* Bytes of a row of DIM numbers, as memory and files have it. */
static inline int64_t ts_row_bytes(ts_dtype t, int64_t dim) {
  const int64_t bytes = ts_columns_bytes(t, dim);
  return ts_dtype_has_scale(t) ? (bytes + 8 + 3) / 4 * 4 : bytes;
}

/* bf16 and f16 to and from f32, round to nearest even. */
static inline float ts_bf16_to_f32(uint16_t h) {
  uint32_t u = (uint32_t)h << 16;
  float f;
  memcpy(&f, &u, sizeof f);
  return f;
}
uint16_t ts_f32_to_bf16(float f);
float ts_f16_to_f32(uint16_t h);
uint16_t ts_f32_to_f16(float f);

/* Stochastic rounding: the neighbour towards or away from zero is taken with
 * probability by distance, R being 32 random bits; right for subnormals,
 * exact values stay, overflow gives the largest finite value. */
uint16_t ts_f32_to_bf16_sr(float f, uint32_t r);
uint16_t ts_f32_to_f16_sr(float f, uint32_t r);

/* None of N elements of type f32, bf16 or f16 is infinite or not a number;
 * true of other types. */
bool ts_all_finite(const void *x, ts_dtype, int64_t n);

/* N elements of type T at SRC (a float's) to f32, and back (nearest even; not
 * to f64). */
void ts_to_f32(float *dst, const void *src, ts_dtype t, int64_t n);
void ts_from_f32(void *dst, const float *src, ts_dtype t, int64_t n);
