/* few_bits.h - rows of tables in few bits (TS_INT8, TS_INT4), each with a scale
 * and a bias of its own: in memory, in checkpoints and in files for serving.
 *
 * A row of DIM numbers x, as bytes, little endian, rows one behind the other:
 *   int8  DIM bytes q, then scale and bias, f32: x = scale q + bias
 *   int4  two q a byte, the first in the low half ((DIM + 1) / 2 bytes; the
 *         last half is 0 where DIM is odd), then scale and bias
 * padded with zeros to a multiple of 4 bytes (ts_row_bytes, base/dtype.h).
 * bias is the least number of the row, scale the range / 255 (15): FBGEMM's
 * rowwise quantisation, but that both are f32.  x is one fused multiply-add.  A
 * row whose numbers are all one has scale 0.  A row with a number that is not
 * finite has no scale and no bias: both are NaN, and so are its numbers.
 *
 * All of it is Local; memory is the host's.  What is inline compiles as C11, by
 * nvcc and by g++, and gives the same bits everywhere. */
#pragma once

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "base/dtype.h"
#include "base/hash.h"

/* The largest q. */
TS_HASH_INLINE float ts_few_bits_most(ts_dtype t) {
  return t == TS_INT8 ? 255.0f : 15.0f;
}

/* TO (n, ts_row_bytes) from X (n, dim): q is the nearest. */
void ts_few_bits_pack(ts_dtype, void *to, const float *x, int64_t n,
                      int32_t dim);
/* X (n, dim) from rows. */
void ts_few_bits_unpack(ts_dtype, float *x, const void *from, int64_t n,
                        int32_t dim);

/* Rows (n, dim) of any dtype of tables to f32, and from f32: the nearest. */
void ts_rows_to_f32(float *x, const void *from, ts_dtype, int64_t n,
                    int32_t dim);
void ts_rows_from_f32(void *to, const float *x, ts_dtype, int64_t n,
                      int32_t dim);
/* None of N rows has a number that is infinite or not a number. */
bool ts_rows_all_finite(const void *rows, ts_dtype, int64_t n, int32_t dim);

/* ---- rounding ------------------------------------------------------------ */

/* A float as an integer that is greater where the float is, NaN beyond
 * infinity: the least and the last of a row are the same in any order. */
TS_HASH_INLINE int32_t ts_few_bits_order(float x) {
  int32_t i;
  memcpy(&i, &x, sizeof i);
  return i ^ (i >> 31 & INT32_MAX);
}
TS_HASH_INLINE float ts_few_bits_float(int32_t i) {
  float x;
  i ^= i >> 31 & INT32_MAX;
  memcpy(&x, &i, sizeof x);
  return x;
}

/* No number from LEAST to LAST, in that order, is infinite or not a number. */
TS_HASH_INLINE bool ts_few_bits_finite(int32_t least, int32_t last) {
  const int32_t largest = 0x7f7fffff;
  return last <= largest && least >= ~largest;
}

/* To the nearest: scale and bias of a row whose numbers are from LEAST to LAST,
 * in ts_few_bits_order.  In f64, as the range may be beyond f32.  The least
 * scales are too coarse to be rounded to the nearest: the last q would miss the
 * row's largest number.  That number has to stay finite, too. */
typedef struct ts_few_bits_code {
  float scale, bias;
  double inverse; /* 1 / scale, or 0 */
} ts_few_bits_code;

TS_HASH_INLINE ts_few_bits_code ts_few_bits_code_of(int32_t least, int32_t last,
                                                    float most) {
  ts_few_bits_code c = {NAN, NAN, 0};
  if (!ts_few_bits_finite(least, last)) return c;
  c.bias = ts_few_bits_float(least);
  const double range = (double)ts_few_bits_float(last) - (double)c.bias;
  c.scale = (float)(range / (double)most);
  if (c.scale < FLT_MIN && (double)c.scale * (double)most < range)
    c.scale = ts_few_bits_float(ts_few_bits_order(c.scale) + 1);
  if ((double)c.scale * (double)most + (double)c.bias > (double)FLT_MAX)
    c.scale = ts_few_bits_float(ts_few_bits_order(c.scale) - 1);
  if (c.scale > 0) c.inverse = 1.0 / (double)c.scale;
  return c;
}

/* q of X, a number of that row: a product by the reciprocal, which vectors
 * have, and no quotient. */
TS_HASH_INLINE int32_t ts_few_bits_near(float x, ts_few_bits_code c,
                                        double most) {
  const double y = ((double)x - (double)c.bias) * c.inverse + 0.5;
  return (int32_t)(y < most ? y : most);
}

/* Stochastically. */
typedef struct ts_few_bits {
  float scale, bias;
  float inverse; /* 2 / scale, or 0 */
} ts_few_bits;

/* Halves, as the range may be beyond f32.  A scale below the least normal one
 * is 0, as its inverse would not be finite; the last number has to stay so,
 * too. */
TS_HASH_INLINE ts_few_bits ts_few_bits_of(int32_t least, int32_t last,
                                          float most) {
  const float bias = ts_few_bits_float(least) + 0.0f; /* -0 is 0 */
  ts_few_bits f = {NAN, NAN, 0};
  if (!ts_few_bits_finite(least, last)) return f;
  f.bias = bias;
  f.scale = (ts_few_bits_float(last) * 0.5f - bias * 0.5f) / (most * 0.5f);
  if (!(f.scale >= FLT_MIN)) f.scale = 0;
  while (fmaf(f.scale, most, bias) > FLT_MAX)
    f.scale = ts_few_bits_float(ts_few_bits_order(f.scale) - 1);
  if (f.scale > 0) f.inverse = 2 / f.scale;
  return f;
}

/* q of X, a number of that row: one of the two beside it, the nearer one more
 * often, by 32 random bits. */
TS_HASH_INLINE int32_t ts_few_bits_round(float x, ts_few_bits f, float most,
                                         uint32_t random) {
  const float y = (x * 0.5f - f.bias * 0.5f) * f.inverse;
  const float in = y < most ? y : most;
  const int32_t q = (int32_t)in;
  return q + (in - (float)q > (float)(random >> 8) * 0x1p-24f);
}
