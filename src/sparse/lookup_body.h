/* lookup_body.h - the pooled lookup, for each instruction set.
 *
 * Random rows of tables larger than the caches: time goes into waiting for
 * memory, so rows are asked for AHEAD ids before they are summed, across the
 * borders of bags (ids of a group follow each other).  The sum of a bag stays
 * in registers: rows too wide for that are summed in several sweeps over the
 * bag, of 8 registers of columns each, and each sweep asks for its own
 * columns only, as if they were a table of their own. */
#pragma once

#include "base/few_bits_body.h"
#include "kernel_table.h"
#include "sparse/isa.h"

enum { AHEAD = 32 };

/* LANES elements, wherever they lie. */
typedef float ts_vecu __attribute__((vector_size(4 * LANES), aligned(4)));
typedef uint32_t ts_uvec __attribute__((vector_size(4 * LANES)));
typedef uint16_t ts_hvec __attribute__((vector_size(2 * LANES)));
typedef uint16_t ts_hvecu __attribute__((vector_size(2 * LANES), aligned(2)));

TS_BODY ts_vec bf16_load(const uint16_t *p) {
  const ts_hvec h = *(const ts_hvecu *)p;
  const ts_uvec wide = __builtin_convertvector(h, ts_uvec) << 16;
  return (ts_vec)wide;
}

/* Exponent and mantissa moved into place and scaled by 2^112, which is right
 * for subnormals too; infinities and NaN need their exponent set.  Where the
 * set has a conversion: it makes NaN quiet, as the first sum does anyway. */
TS_BODY ts_vec f16_load(const uint16_t *p) {
  const ts_hvec h = *(const ts_hvecu *)p;
#if LANES == 16
  return (ts_vec)_mm512_cvtph_ps((__m256i)h);
#elif LANES == 8 && defined(__F16C__)
  return (ts_vec)_mm256_cvtph_ps((__m128i)h);
#else
  const ts_uvec u = __builtin_convertvector(h, ts_uvec);
  const ts_uvec mag = (u & 0x7fff) << 13, sign = (u & 0x8000) << 16;
  const ts_vec scaled = (ts_vec)mag * 0x1p112f;
  const ts_uvec special = (ts_uvec)((u & 0x7c00) == 0x7c00);
  return (ts_vec)((ts_uvec)scaled | sign | (special & 0x7f800000));
#endif
}

TS_BODY ts_vec load(const char *row, int32_t d, ts_dtype t) {
  if (t == TS_F32) return *(const ts_vecu *)(row + 4 * (int64_t)d);
  const uint16_t *h = (const uint16_t *)row + d;
  return t == TS_BF16 ? bf16_load(h) : f16_load(h);
}

TS_BODY float load1(const char *row, int32_t d, ts_dtype t) {
  float x;
  if (t == TS_F32) {
    memcpy(&x, row + 4 * (int64_t)d, 4);
    return x;
  }
  uint16_t h;
  memcpy(&h, row + 2 * (int64_t)d, 2);
  return t == TS_BF16 ? ts_bf16_to_f32(h) : ts_f16_to_f32(h);
}

/* A bag: ids [from, to). */
typedef struct ts_bag {
  float *out;
  const char *table;
  const int32_t *rows;
  const float *weights;
  int64_t row_bytes, from, to;
  int64_t scale_at; /* of rows in few bits: where scale and bias lie in one */
  int64_t ahead;    /* ids before this one have another AHEAD after them */
  float scale;
} ts_bag;

/* The row of id I from column COL on, and a request for the columns'
 * BYTES of the row AHEAD of it, into the first cache: from the second, sums of
 * rows that come from memory took a tenth to a fifth longer. */
TS_BODY const char *row_at(const ts_bag *b, int64_t i, int64_t col_at,
                           int64_t bytes) {
  if (i < b->ahead) {
    const char *next = b->table + b->rows[i + AHEAD] * b->row_bytes + col_at;
    for (int64_t k = 0; k < bytes; k += 64) __builtin_prefetch(next + k, 0, 3);
  }
  return b->table + b->rows[i] * b->row_bytes + col_at;
}

/* ---- rows in few bits (base/few_bits.h) ----------------------------------
 *
 * A row adds (w scale) q to the columns and w bias to one number of the bag,
 * but for the first, whose w bias the columns begin with: the sum of a single
 * row is the row, to the bit.  Products are fused with sums in every version.
 */

/* *W becomes w scale, and w bias is returned; ROW is what row_at gave for the
 * columns at COL_AT. */
TS_BODY float scaled(const ts_bag *b, const char *row, int64_t col_at,
                     float *w) {
  float tail[2];
  memcpy(tail, row - col_at + b->scale_at, sizeof tail);
  const float bias = *w * tail[1];
  *w *= tail[0];
  return bias;
}

/* The end of the row AHEAD of id I, where scale and bias are. */
TS_BODY void ask_scale(const ts_bag *b, int64_t i) {
  if (i >= b->ahead) return;
  const char *next = b->table + b->rows[i + AHEAD] * b->row_bytes;
  __builtin_prefetch(next + b->scale_at, 0, 3);
  __builtin_prefetch(next + b->scale_at + 7, 0, 3);
}

TS_BODY ts_vec load_few(const char *row, int64_t d, ts_dtype t) {
  ts_bvec b;
  ts_nvec n;
  if (t == TS_INT8) {
    memcpy(&b, row + d, sizeof b);
    return ts_vec_of_int8(b);
  }
  memcpy(&n, row + d / 2, sizeof n);
  return ts_vec_of_int4(n);
}

TS_BODY float load_few1(const char *row, int32_t d, ts_dtype t) {
  const uint8_t *q = (const uint8_t *)row;
  return t == TS_INT8 ? (float)q[d] : (float)(q[d / 2] >> 4 * (d % 2) & 15);
}

/* As sweep. */
TS_BODY void sweep_few(const ts_bag *b, int32_t col, int nv, ts_dtype t) {
  const int64_t at = ts_columns_bytes(t, col);
  ts_vec sum[WIDEST];
  float biases = 0;
  for (int v = 0; v < nv; v++) sum[v] = (ts_vec){0};
  for (int64_t i = b->from; i < b->to; i++) {
    const char *row = row_at(b, i, at, ts_columns_bytes(t, nv * LANES));
    float w = b->weights ? b->weights[i] : 1.0f;
    const float bias = scaled(b, row, at, &w);
    ask_scale(b, i);
    if (i == b->from)
      for (int v = 0; v < nv; v++) sum[v] = bias - (ts_vec){0};
    else
      biases += bias;
    for (int v = 0; v < nv; v++)
      sum[v] =
          ts_vec_fused(load_few(row, LANES * v, t), w - (ts_vec){0}, sum[v]);
  }
  for (int v = 0; v < nv; v++) {
    sum[v] = (sum[v] + biases) * b->scale;
    *(ts_vecu *)(b->out + col + LANES * v) = sum[v];
  }
}

/* As sweep_rest. */
TS_BODY void sweep_few_rest(const ts_bag *b, int32_t col, int n, ts_dtype t) {
  const int64_t at = ts_columns_bytes(t, col);
  float sum[LANES] = {0}, biases = 0;
  for (int64_t i = b->from; i < b->to; i++) {
    const char *row = row_at(b, i, at, ts_columns_bytes(t, n));
    float w = b->weights ? b->weights[i] : 1.0f;
    const float bias = scaled(b, row, at, &w);
    ask_scale(b, i);
    if (i > b->from) biases += bias;
    for (int d = 0; d < n; d++)
      sum[d] =
          __builtin_fmaf(w, load_few1(row, d, t), i > b->from ? sum[d] : bias);
  }
  for (int d = 0; d < n; d++) b->out[col + d] = (sum[d] + biases) * b->scale;
}

/* ---- bags ---------------------------------------------------------------- */

/* NV vectors of columns from COL on; NV is known to the compiler. */
TS_BODY void sweep(const ts_bag *b, int32_t col, int nv, ts_dtype t) {
  const int size = t == TS_F32 ? 4 : 2;
  if (ts_dtype_has_scale(t)) {
    sweep_few(b, col, nv, t);
    return;
  }
  ts_vec sum[WIDEST];
  for (int v = 0; v < nv; v++) sum[v] = (ts_vec){0};
  for (int64_t i = b->from; i < b->to; i++) {
    const char *row = row_at(b, i, col * size, nv * LANES * size);
    if (b->weights) {
      const float w = b->weights[i];
      for (int v = 0; v < nv; v++) sum[v] += w * load(row, LANES * v, t);
    } else {
      for (int v = 0; v < nv; v++) sum[v] += load(row, LANES * v, t);
    }
  }
  if (b->scale != 1.0f)
    for (int v = 0; v < nv; v++) sum[v] *= b->scale;
  for (int v = 0; v < nv; v++) *(ts_vecu *)(b->out + col + LANES * v) = sum[v];
}

/* The last N < LANES columns. */
TS_BODY void sweep_rest(const ts_bag *b, int32_t col, int n, ts_dtype t) {
  const int size = t == TS_F32 ? 4 : 2;
  if (ts_dtype_has_scale(t)) {
    sweep_few_rest(b, col, n, t);
    return;
  }
  float sum[LANES] = {0};
  for (int64_t i = b->from; i < b->to; i++) {
    const char *row = row_at(b, i, col * size, n * size);
    const float w = b->weights ? b->weights[i] : 1.0f;
    for (int d = 0; d < n; d++) sum[d] += w * load1(row, d, t);
  }
  for (int d = 0; d < n; d++) b->out[col + d] = b->scale * sum[d];
}

/* FIXED: the compiler knows DIM, a multiple of 16, and drops the rest. */
TS_BODY void sum_bag(const ts_bag *b, int32_t dim, bool fixed, ts_dtype t) {
  int32_t d = 0;
  if (fixed && dim <= WIDEST * LANES) {
    sweep(b, 0, dim / LANES, t);
    return;
  }
  for (; dim - d >= 8 * LANES; d += 8 * LANES) sweep(b, d, 8, t);
  if ((dim - d) & 4 * LANES) sweep(b, d, 4, t), d += 4 * LANES;
  if ((dim - d) & 2 * LANES) sweep(b, d, 2, t), d += 2 * LANES;
  if ((dim - d) & LANES) sweep(b, d, 1, t), d += LANES;
  if (d < dim) sweep_rest(b, d, dim - d, t);
}

TS_BODY void lookup_bags(const ts_lookup_args *a, int64_t first, int64_t end,
                         int32_t dim, bool fixed, ts_dtype t) {
  ts_bag b = {.rows = a->rows,
              .weights = a->weights,
              .row_bytes = ts_row_bytes(t, dim),
              .scale_at = ts_columns_bytes(t, dim),
              .ahead = a->offsets[a->bag_start[a->n_features]] - AHEAD};
  int64_t bag = first;
  for (int32_t f = 0; f < a->n_features && bag < end; f++) {
    const int64_t stop = a->bag_start[f + 1] < end ? a->bag_start[f + 1] : end;
    b.table = (const char *)a->weight + a->row_base[f] * b.row_bytes;
    for (; bag < stop; bag++) {
      b.out = a->out + a->at[bag];
      b.from = a->offsets[bag], b.to = a->offsets[bag + 1];
      b.scale = a->mean && b.to > b.from ? 1.0f / (float)(b.to - b.from) : 1.0f;
      sum_bag(&b, dim, fixed, t);
    }
  }
}

/* First bag of part P of N: parts have about as many ids and bags each. */
static inline int64_t lookup_cut(const ts_lookup_args *a, int p, int n) {
  int64_t low = 0, high = a->bag_start[a->n_features];
  const int64_t goal = (a->offsets[high] + high) * p / n;
  while (low < high) {
    const int64_t mid = low + (high - low) / 2;
    if (a->offsets[mid] + mid < goal)
      low = mid + 1;
    else
      high = mid;
  }
  return low;
}
