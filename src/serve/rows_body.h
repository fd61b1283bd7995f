/* rows_body.h - the lookup of rows in few bits, for each instruction set.
 *
 * Random rows of tables larger than the caches: time goes into waiting for
 * memory, so the lines of rows are asked for some ids before they are summed,
 * across the borders of bags.  The sum of a bag stays in registers: rows too
 * wide for that are summed in several sweeps over the bag.
 *
 * int8 and int4: a row adds (w scale) q to the columns and w bias to one
 * number of the bag, but for the first, whose w bias the columns begin with:
 * the sum of a single row is the row, to the bit. */
#pragma once

#include <string.h>

#include "base/dtype.h"
#include "base/few_bits_body.h"
#include "serve/rows_impl.h"

#define BODY static inline __attribute__((always_inline))

/* 192 lines are 12 KiB of the first cache. */
enum { LINE = 64, LINES_AHEAD = 192, MOST_AHEAD = 128, LEAST_AHEAD = 4 };

typedef uint32_t ts_uvec __attribute__((vector_size(4 * LANES)));
typedef uint16_t ts_hvec __attribute__((vector_size(2 * LANES)));

/* ---- columns of a row ---------------------------------------------------- */

/* By name where there is an instruction (base/few_bits_body.h). */
#if LANES == 16
BODY ts_vec of_bf16(ts_hvec h) {
  return (ts_vec)_mm512_slli_epi32(_mm512_cvtepu16_epi32((__m256i)h), 16);
}
#elif LANES == 8
BODY ts_vec of_bf16(ts_hvec h) {
  return (ts_vec)_mm256_slli_epi32(_mm256_cvtepu16_epi32((__m128i)h), 16);
}
#else
BODY ts_vec of_bf16(ts_hvec h) {
  return (ts_vec)(__builtin_convertvector(h, ts_uvec) << 16);
}
#endif

/* LANES columns from D on, D a multiple of LANES. */
BODY ts_vec load(const char *row, int64_t d, ts_rows_kind kind) {
  ts_vec x;
  ts_hvec h;
  ts_bvec b;
  ts_nvec n;
  switch (kind) {
  case TS_ROWS_BF16:
    memcpy(&h, row + 2 * d, sizeof h);
    return of_bf16(h);
  case TS_ROWS_INT8:
    memcpy(&b, row + d, sizeof b);
    return ts_vec_of_int8(b);
  case TS_ROWS_INT4:
    memcpy(&n, row + d / 2, sizeof n);
    return ts_vec_of_int4(n);
  default:
    memcpy(&x, row + 4 * d, sizeof x);
    return x;
  }
}

/* All N columns of a row with fewer than LANES. */
BODY ts_vec load_short(const char *row, int n, ts_rows_kind kind) {
#if LANES == 16
  const __mmask16 m = (__mmask16)((1u << n) - 1);
  if (kind == TS_ROWS_F32 && n <= 8)
    return (ts_vec)_mm512_zextps256_ps512(
        _mm256_maskz_loadu_ps((__mmask8)m, row));
  if (kind == TS_ROWS_F32) return (ts_vec)_mm512_maskz_loadu_ps(m, row);
  if (kind == TS_ROWS_BF16 && n <= 8)
    return of_bf16((ts_hvec)_mm256_zextsi128_si256(
        _mm_maskz_loadu_epi16((__mmask8)m, row)));
  if (kind == TS_ROWS_BF16)
    return of_bf16((ts_hvec)_mm256_maskz_loadu_epi16(m, row));
  if (kind == TS_ROWS_INT8)
    return ts_vec_of_int8((ts_bvec)_mm_maskz_loadu_epi8(m, row));
  return load(row, 0, kind); /* scale and bias are behind them */
#else
  ts_vec x = {0};
  const uint8_t *q = (const uint8_t *)row;
  uint16_t h[LANES];
  if (kind == TS_ROWS_F32) memcpy(&x, row, 4 * (size_t)n);
  if (kind == TS_ROWS_BF16) memcpy(h, row, 2 * (size_t)n);
  for (int k = 0; k < n && kind != TS_ROWS_F32; k++)
    x[k] = kind == TS_ROWS_BF16   ? ts_bf16_to_f32(h[k])
           : kind == TS_ROWS_INT8 ? (float)q[k]
                                  : (float)(q[k / 2] >> 4 * (k % 2) & 15);
  return x;
#endif
}

BODY void store_some(float *to, ts_vec x, int n) {
#if LANES == 16
  _mm512_mask_storeu_ps(to, (__mmask16)((1u << n) - 1), (__m512)x);
#else
  float y[LANES];
  memcpy(y, &x, sizeof y);
  for (int k = 0; k < n; k++) to[k] = y[k];
#endif
}

BODY ts_vec add_product(ts_vec x, ts_vec y, ts_vec sum) {
#if LANES == 16
  return (ts_vec)_mm512_fmadd_ps((__m512)x, (__m512)y, (__m512)sum);
#elif LANES == 8 && defined(__FMA__)
  return (ts_vec)_mm256_fmadd_ps((__m256)x, (__m256)y, (__m256)sum);
#else
  return x * y + sum;
#endif
}

/* ---- a bag --------------------------------------------------------------- */

/* Ids [from, to) of the lookup. */
typedef struct ts_bag {
  const ts_rows_lookup *l;
  float *out;
  int64_t row_bytes, scale_at, from, to;
  int64_t last_col;    /* of the row's last LANES columns, an even one */
  int64_t ahead, last; /* ids before last have another, ahead of them */
  float factor;
} ts_bag;

BODY const char *row_of(const ts_bag *b, int64_t i) {
  return (const char *)b->l->table + b->l->rows[i] * b->row_bytes;
}

/* Asks for BYTES of a row from AT on, and for its end, where scale and bias
 * are, or theirs where it is shorter; whole lines need no more. */
BODY void ask(const ts_bag *b, int64_t i, int64_t at, int64_t bytes) {
  const char *row = row_of(b, i);
  for (int64_t k = 0; k < bytes; k += LINE)
    __builtin_prefetch(row + at + k, 0, 3);
  const int64_t end = at + bytes > b->row_bytes ? at + bytes : b->row_bytes;
  if (b->row_bytes % LINE) __builtin_prefetch(row + end - 1, 0, 3);
}

BODY int64_t bytes_of(ts_rows_kind kind, int64_t columns) {
  return kind == TS_ROWS_F32    ? 4 * columns
         : kind == TS_ROWS_BF16 ? 2 * columns
         : kind == TS_ROWS_INT8 ? columns
                                : (columns + 1) / 2;
}

BODY ts_vec all(float x) {
  return x - (ts_vec){0};
}

/* Of the row of id I: w scale in the place of w; returns w bias. */
BODY float scaled(const ts_bag *b, const char *row, float *w) {
  float tail[2];
  memcpy(tail, row + b->scale_at, sizeof tail);
  const float bias = *w * tail[1];
  *w *= tail[0];
  return bias;
}

/* What is behind the whole vectors of a sweep: nothing; the row's last LANES
 * columns, some of them once more (of int4 and an odd width, what is behind the
 * row in the last lane); a row that is shorter than a vector.  A vector that
 * ends with columns that are masked would wait for the line behind the row. */
typedef enum { NO_END, LAST_LANES, SHORT } ts_end;

/* FULL vectors of columns from COL on, then END; FULL is known to the compiler.
 */
BODY void sweep(const ts_bag *b, int64_t col, int full, ts_end end,
                ts_rows_kind kind) {
  const bool few_bits = kind == TS_ROWS_INT8 || kind == TS_ROWS_INT4;
  const int nv = end == NO_END ? full : full + 1;
  const ts_rows_lookup *l = b->l;
  const int64_t at = bytes_of(kind, full ? col : b->last_col);
  const int64_t bytes = bytes_of(kind, (int64_t)nv * LANES);
  ts_vec sum[WIDEST];
  float first = 0, biases = 0;
  if (few_bits) {
    float w = l->weights ? l->weights[b->from] : 1.0f;
    first = scaled(b, row_of(b, b->from), &w);
  }
  for (int v = 0; v < nv; v++) sum[v] = all(first);
  for (int64_t i = b->from; i < b->to; i++) {
    if (i < b->last) ask(b, i + b->ahead, at, bytes);
    const char *row = row_of(b, i);
    float w = l->weights ? l->weights[i] : 1.0f;
    if (few_bits) {
      const float bias = scaled(b, row, &w);
      biases += i > b->from ? bias : 0;
    }
    for (int v = 0; v < full; v++)
      sum[v] = add_product(load(row, col + LANES * v, kind), all(w), sum[v]);
    if (end == LAST_LANES)
      sum[full] = add_product(load(row, b->last_col, kind), all(w), sum[full]);
    if (end == SHORT)
      sum[full] = add_product(load_short(row, l->dim, kind), all(w), sum[full]);
  }
  for (int v = 0; v < nv; v++) sum[v] = (sum[v] + biases) * b->factor;
  for (int v = 0; v < full; v++)
    memcpy(b->out + col + LANES * v, &sum[v], sizeof *sum);
  if (end != NO_END)
    store_some(b->out + b->last_col, sum[full], (int)(l->dim - b->last_col));
}

BODY void sum_bag(const ts_bag *b, ts_rows_kind kind) {
  const int64_t dim = b->l->dim;
  int64_t d = 0;
  if (dim < LANES) {
    sweep(b, 0, 0, SHORT, kind);
    return;
  }
  if (WIDEST >= 16)
    for (; dim - d >= 16 * LANES; d += 16 * LANES)
      sweep(b, d, 16, NO_END, kind);
  for (; dim - d >= 8 * LANES; d += 8 * LANES) sweep(b, d, 8, NO_END, kind);
#define CASE(n)                                                                \
  case n:                                                                      \
    if (dim % LANES)                                                           \
      sweep(b, d, n, LAST_LANES, kind);                                        \
    else if (n)                                                                \
      sweep(b, d, n, NO_END, kind);                                            \
    break
  switch ((dim - d) / LANES) {
    CASE(0);
    CASE(1);
    CASE(2);
    CASE(3);
    CASE(4);
    CASE(5);
    CASE(6);
    CASE(7);
  }
#undef CASE
}

BODY void look_up(const ts_rows_lookup *l, ts_rows_kind kind) {
  const int64_t *offsets = l->offsets;
  const int64_t first = offsets ? offsets[0] : 0;
  const int64_t end = offsets ? offsets[l->n] : l->n;
  ts_bag b = {.l = l,
              .row_bytes = ts_rows_bytes(kind, l->dim),
              .scale_at = bytes_of(kind, l->dim),
              .last_col = (l->dim + 1) / 2 * 2 - LANES,
              .factor = 1.0f};
  if (kind != TS_ROWS_INT4) b.last_col = l->dim - LANES;
  if (b.last_col < 0) b.last_col = 0;
  b.ahead = LINES_AHEAD / ((b.row_bytes + LINE - 1) / LINE);
  if (b.ahead > MOST_AHEAD) b.ahead = MOST_AHEAD;
  if (b.ahead < LEAST_AHEAD) b.ahead = LEAST_AHEAD;
  b.last = end - b.ahead;
  for (int64_t i = first; i < end && i < first + b.ahead; i++)
    ask(&b, i, 0, b.row_bytes);
  for (int64_t k = 0; k < l->n; k++) {
    b.out = l->out + k * l->stride;
    b.from = offsets ? offsets[k] : k, b.to = offsets ? offsets[k + 1] : k + 1;
    if (l->mean) b.factor = 1.0f / (float)(b.to - b.from);
    if (b.to > b.from)
      sum_bag(&b, kind);
    else
      memset(b.out, 0, (size_t)l->dim * sizeof(float));
  }
}

void TS_ROWS_LOOK_UP(const ts_rows_lookup *l) {
  switch (l->kind) {
  case TS_ROWS_BF16:
    look_up(l, TS_ROWS_BF16);
    return;
  case TS_ROWS_INT8:
    look_up(l, TS_ROWS_INT8);
    return;
  case TS_ROWS_INT4:
    look_up(l, TS_ROWS_INT4);
    return;
  default:
    look_up(l, TS_ROWS_F32);
  }
}
