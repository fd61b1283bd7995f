/* few_bits.c - rows of tables in few bits: to and from f32. */
#include "base/few_bits.h"

#include "base/clones.h"

/* ---- packing ------------------------------------------------------------- */

static ts_few_bits_code code_of(const float *x, int32_t dim, float most) {
  int32_t least = INT32_MAX, last = INT32_MIN;
  for (int32_t d = 0; d < dim; d++) {
    const int32_t y = ts_few_bits_order(x[d]);
    least = y < least ? y : least;
    last = y > last ? y : last;
  }
  return ts_few_bits_code_of(least, last, most);
}

static void quantise(uint8_t *q, ts_few_bits_code c, double most,
                     const float *x, int32_t dim) {
  for (int32_t d = 0; d < dim; d++)
    q[d] = (uint8_t)ts_few_bits_near(x[d], c, most);
}

static void pack_row(ts_dtype t, uint8_t *to, const float *x, int32_t dim) {
  enum { BLOCK = 256 }; /* even: a byte has two columns of int4 */
  const float most = ts_few_bits_most(t);
  const ts_few_bits_code c = code_of(x, dim, most);
  uint8_t q[BLOCK + 1];
  uint8_t *tail = to + ts_columns_bytes(t, dim);
  for (int32_t d = 0; d < dim; d += BLOCK) {
    const int32_t n = dim - d < BLOCK ? dim - d : BLOCK;
    quantise(q, c, (double)most, x + d, n);
    q[n] = 0;
    if (t == TS_INT8)
      memcpy(to + d, q, (size_t)n);
    else
      for (int32_t k = 0; k < n; k += 2)
        to[(d + k) / 2] = (uint8_t)(q[k] | q[k + 1] << 4);
  }
  memcpy(tail, &c.scale, 4);
  memcpy(tail + 4, &c.bias, 4);
}

void ts_few_bits_pack(ts_dtype t, void *to, const float *x, int64_t n,
                      int32_t dim) {
  const int64_t bytes = ts_row_bytes(t, dim);
  for (int64_t i = 0; i < n; i++) {
    uint8_t *row = (uint8_t *)to + i * bytes;
    memset(row + bytes - 4, 0, 4); /* padding is there */
    pack_row(t, row, x + i * dim, dim);
  }
}

/* ---- unpacking ----------------------------------------------------------- */

TS_CLONES static void unpack_int8(float *x, const uint8_t *q,
                                  const float tail[2], int32_t dim) {
  for (int32_t d = 0; d < dim; d++) x[d] = fmaf(tail[0], q[d], tail[1]);
}

TS_CLONES static void unpack_int4(float *x, const uint8_t *q,
                                  const float tail[2], int32_t dim) {
  for (int32_t d = 0; d < dim; d++)
    x[d] = fmaf(tail[0], (float)(q[d / 2] >> 4 * (d % 2) & 15), tail[1]);
}

void ts_few_bits_unpack(ts_dtype t, float *x, const void *from, int64_t n,
                        int32_t dim) {
  const int64_t bytes = ts_row_bytes(t, dim), at = ts_columns_bytes(t, dim);
  float tail[2];
  for (int64_t i = 0; i < n; i++) {
    const uint8_t *row = (const uint8_t *)from + i * bytes;
    memcpy(tail, row + at, sizeof tail);
    (t == TS_INT8 ? unpack_int8 : unpack_int4)(x + i * dim, row, tail, dim);
  }
}

/* ---- any dtype ----------------------------------------------------------- */

void ts_rows_to_f32(float *x, const void *from, ts_dtype t, int64_t n,
                    int32_t dim) {
  if (ts_dtype_has_scale(t))
    ts_few_bits_unpack(t, x, from, n, dim);
  else
    ts_to_f32(x, from, t, n * dim);
}

void ts_rows_from_f32(void *to, const float *x, ts_dtype t, int64_t n,
                      int32_t dim) {
  if (ts_dtype_has_scale(t))
    ts_few_bits_pack(t, to, x, n, dim);
  else
    ts_from_f32(to, x, t, n * dim);
}

bool ts_rows_all_finite(const void *rows, ts_dtype t, int64_t n, int32_t dim) {
  const int64_t bytes = ts_row_bytes(t, dim), at = ts_columns_bytes(t, dim);
  float tail[2];
  if (!ts_dtype_has_scale(t)) return ts_all_finite(rows, t, n * dim);
  for (int64_t i = 0; i < n; i++) {
    memcpy(tail, (const char *)rows + i * bytes + at, sizeof tail);
    if (!isfinite(fmaf(tail[0], ts_few_bits_most(t), tail[1]))) return false;
  }
  return true;
}
