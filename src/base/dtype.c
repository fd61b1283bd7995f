/* dtype.c - conversions of 16-bit floats. */
#include "base/dtype.h"

const char *ts_dtype_name(ts_dtype t) {
  static const char *const names[] = {"f32", "bf16", "f16", "int8", "int4",
                                      "f64", "i32",  "i64", "u8"};
  return names[t];
}

static uint32_t bits_of(float f) {
  uint32_t u;
  memcpy(&u, &f, sizeof u);
  return u;
}

static float float_of(uint32_t u) {
  float f;
  memcpy(&f, &u, sizeof f);
  return f;
}

uint16_t ts_f32_to_bf16(float f) {
  uint32_t u = bits_of(f);
  if ((u & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(u >> 16 | 0x40);
  return (uint16_t)((u + 0x7fffu + (u >> 16 & 1)) >> 16);
}

uint16_t ts_f32_to_bf16_sr(float f, uint32_t r) {
  uint32_t u = bits_of(f);
  if ((u & 0x7f800000u) == 0x7f800000u) return ts_f32_to_bf16(f);
  uint32_t v = u + (r & 0xffffu);
  if ((v & 0x7f800000u) == 0x7f800000u) v = (u & 0x80000000u) | 0x7f7f0000u;
  return (uint16_t)(v >> 16);
}

float ts_f16_to_f32(uint16_t h) {
  uint32_t sign = (uint32_t)(h & 0x8000u) << 16, rest = h & 0x7fffu;
  if (rest >= 0x7c00u) return float_of(sign | 0x7f800000u | rest << 13);
  if (rest >= 0x0400u) return float_of(sign | ((rest << 13) + 0x38000000u));
  float f = (float)rest * 0x1p-24f; /* subnormal */
  return sign ? -f : f;
}

/* |x| < 65536 as a multiple of its f16 unit, plus what is left of it. */
static uint16_t round_f16(float f, uint32_t r, int stochastic) {
  uint32_t u = bits_of(f), sign = u >> 16 & 0x8000u, mag = u & 0x7fffffffu;
  if (mag > 0x7f800000u) return (uint16_t)(sign | 0x7e00u);
  if (mag == 0x7f800000u) return (uint16_t)(sign | 0x7c00u);
  uint32_t base, drop;
  uint32_t mantissa = (mag & 0x7fffffu) | 0x800000u;
  int exponent = (int)(mag >> 23);
  if (exponent >= 113) { /* normal in f16 */
    base = (mag - 0x38000000u) >> 13;
    drop = 13;
  } else { /* subnormal in f16: unit 2^-24 */
    drop = (uint32_t)(126 - exponent);
    if (drop > 31) return (uint16_t)sign; /* below 2^-32 of the unit */
    base = drop > 24 ? 0 : mantissa >> drop;
  }
  uint32_t rest = mantissa & (uint32_t)((UINT64_C(1) << drop) - 1);
  uint64_t unit = UINT64_C(1) << drop;
  if (stochastic)
    base += (uint64_t)rest + (r & (unit - 1)) >= unit;
  else
    base += rest > unit / 2 || (rest == unit / 2 && (base & 1));
  if (base >= 0x7c00u) base = stochastic ? 0x7bffu : 0x7c00u;
  return (uint16_t)(sign | base);
}

uint16_t ts_f32_to_f16(float f) {
  return round_f16(f, 0, 0);
}

uint16_t ts_f32_to_f16_sr(float f, uint32_t r) {
  return round_f16(f, r, 1);
}

void ts_to_f32(float *dst, const void *src, ts_dtype t, int64_t n) {
  const uint16_t *h = src;
  const double *d = src;
  if (t == TS_F32) memcpy(dst, src, (size_t)n * sizeof *dst);
  if (t == TS_F64)
    for (int64_t i = 0; i < n; i++) dst[i] = (float)d[i];
  if (t == TS_BF16)
    for (int64_t i = 0; i < n; i++) dst[i] = ts_bf16_to_f32(h[i]);
  if (t == TS_F16)
    for (int64_t i = 0; i < n; i++) dst[i] = ts_f16_to_f32(h[i]);
}

void ts_from_f32(void *dst, const float *src, ts_dtype t, int64_t n) {
  uint16_t *h = dst;
  if (t == TS_F32) memcpy(dst, src, (size_t)n * sizeof *src);
  if (t == TS_BF16)
    for (int64_t i = 0; i < n; i++) h[i] = ts_f32_to_bf16(src[i]);
  if (t == TS_F16)
    for (int64_t i = 0; i < n; i++) h[i] = ts_f32_to_f16(src[i]);
}

/* ---- finite -------------------------------------------------------------- */

/* Not finite: all bits of the exponent are set.  Without a branch for each
 * element. */
static bool bad_32(const uint32_t *x, int64_t n) {
  uint32_t bad = 0;
  for (int64_t i = 0; i < n; i++) bad |= (x[i] & 0x7f800000) == 0x7f800000;
  return bad;
}

static bool bad_16(const uint16_t *x, int64_t n, uint16_t exponent) {
  uint16_t bad = 0;
  for (int64_t i = 0; i < n; i++)
    bad = (uint16_t)(bad | ((x[i] & exponent) == exponent));
  return bad;
}

bool ts_all_finite(const void *x, ts_dtype t, int64_t n) {
  switch (t) {
  case TS_F32:
    return !bad_32(x, n);
  case TS_BF16:
    return !bad_16(x, n, 0x7f80);
  case TS_F16:
    return !bad_16(x, n, 0x7c00);
  default:
    return true;
  }
}
