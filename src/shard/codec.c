/* codec.c - rows of floats in fewer bytes. */
#include "shard/codec.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/dtype.h"

ts_err ts_codec_find(ts_codec *out, const char *name, const char *key) {
  static const char *const names[] = {"f32", "bf16", "f16", "int8"};
  for (int i = 0; i < 4; i++)
    if (!strcmp(name, names[i])) {
      *out = (ts_codec)i;
      return TS_OK;
    }
  return ts_fail(TS_ERR_DECK,
                 "%s: no codec \"%s\"; there are: f32, bf16, f16, int8", key,
                 name);
}

int64_t ts_codec_bytes(ts_codec c, int32_t n) {
  switch (c) {
  case TS_CODEC_F32:
    return 4 * (int64_t)n;
  case TS_CODEC_BF16:
  case TS_CODEC_F16:
    return 2 * (int64_t)n;
  case TS_CODEC_INT8:
    break;
  }
  return 4 + (n + 3) / 4 * 4;
}

/* 0 where 1 / scale would be infinite; times 127 it is a number. */
static float scale_of(const float *x, int32_t n) {
  float top = 0;
  for (int32_t d = 0; d < n; d++) {
    const float a = fabsf(x[d]);
    top = a > top || isnan(a) ? a : top;
  }
  const float scale = top / 127.0f;
  if (scale < FLT_MIN) return 0;
  return isfinite(top) && isinf(scale * 127.0f) ? nextafterf(scale, 0) : scale;
}

static void encode_int8(char *to, const float *x, int32_t n) {
  int8_t *q = (int8_t *)(to + 4);
  const float scale = scale_of(x, n);
  const float by = scale > 0 && isfinite(scale) ? 1.0f / scale : 0.0f;
  memcpy(to, &scale, 4);
  memset(q, 0, (size_t)((n + 3) / 4 * 4));
  if (by > 0)
    for (int32_t d = 0; d < n; d++) q[d] = (int8_t)lrintf(x[d] * by);
}

void ts_codec_encode(ts_codec c, void *to, const float *x, int32_t n) {
  if (c == TS_CODEC_F32) memcpy(to, x, (size_t)n * 4);
  if (c == TS_CODEC_BF16) ts_from_f32(to, x, TS_BF16, n);
  if (c == TS_CODEC_F16) ts_from_f32(to, x, TS_F16, n);
  if (c == TS_CODEC_INT8) encode_int8(to, x, n);
}

static void decode_int8(float *x, const char *from, int32_t n) {
  const int8_t *q = (const int8_t *)(from + 4);
  float scale;
  memcpy(&scale, from, 4);
  for (int32_t d = 0; d < n; d++) x[d] = scale * (float)q[d];
}

void ts_codec_decode(ts_codec c, float *x, const void *from, int32_t n) {
  if (c == TS_CODEC_F32) memcpy(x, from, (size_t)n * 4);
  if (c == TS_CODEC_BF16) ts_to_f32(x, from, TS_BF16, n);
  if (c == TS_CODEC_F16) ts_to_f32(x, from, TS_F16, n);
  if (c == TS_CODEC_INT8) decode_int8(x, from, n);
}

void ts_codec_add(ts_codec c, float *x, const void *from, int32_t n) {
  float part[64];
  const int64_t step = ts_codec_bytes(TS_CODEC_BF16, 1);
  if (c == TS_CODEC_INT8) {
    const int8_t *q = (const int8_t *)from + 4;
    float scale;
    memcpy(&scale, from, 4);
    for (int32_t d = 0; d < n; d++) x[d] += scale * (float)q[d];
    return;
  }
  for (int32_t d = 0; d < n; d += 64) {
    const int32_t m = n - d < 64 ? n - d : 64;
    const int64_t at = d * (c == TS_CODEC_F32 ? 4 : step);
    ts_codec_decode(c, part, (const char *)from + at, m);
    for (int32_t k = 0; k < m; k++) x[d + k] += part[k];
  }
}
