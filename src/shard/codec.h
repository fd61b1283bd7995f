/* codec.h - how floats travel in output dist.
 *
 * A row of N floats (one bag's columns) is coded alone:
 *   f32    as it is
 *   bf16, f16   rounded to nearest even
 *   int8   scale = max |x| / 127 as f32, then N signed bytes round(x / scale),
 *          padded to 4: an error of at most max |x| / 254 per element; rows
 *          with max |x| < 127 * 2^-126 become zeros
 * Not a number stays one and infinity infinite; in int8 either makes the
 * whole row NaN.  All of it is Local. */
#pragma once

#include <stdint.h>

#include "base/err.h"

typedef enum {
  TS_CODEC_F32,
  TS_CODEC_BF16,
  TS_CODEC_F16,
  TS_CODEC_INT8
} ts_codec;

/* "f32", "bf16", "f16", "int8"; DECK error with KEY for anything else. */
ts_err ts_codec_find(ts_codec *, const char *name, const char *key);

int64_t ts_codec_bytes(ts_codec, int32_t n); /* of a row of N floats */
void ts_codec_encode(ts_codec, void *to, const float *x, int32_t n);
void ts_codec_decode(ts_codec, float *x, const void *from, int32_t n);
/* x += what FROM says. */
void ts_codec_add(ts_codec, float *x, const void *from, int32_t n);
