/* lookup_body.h - the pooled lookup, for each instruction set.
 *
 * Random rows of tables larger than the caches: time goes into waiting for
 * memory, so rows are asked for AHEAD ids before they are summed, across the
 * borders of bags (ids of a group follow each other), and the sum of a bag
 * stays in registers for the usual widths. */
#ifndef TS_SPARSE_LOOKUP_BODY_H
#define TS_SPARSE_LOOKUP_BODY_H

#include "runtime/kernels.h"
#include "sparse/isa.h"

enum { AHEAD = 16 };

TS_BODY ts_v16 bf16_load16(const uint16_t *p) {
  const ts_h16 h = *(const ts_h16u *)p;
  const ts_u16x wide = __builtin_convertvector(h, ts_u16x) << 16;
  return (ts_v16)wide;
}

/* Exponent and mantissa moved into place and scaled by 2^112, which is right
 * for subnormals too; infinities and NaN need their exponent set. */
TS_BODY ts_v16 f16_load16(const uint16_t *p) {
  const ts_h16 h = *(const ts_h16u *)p;
  const ts_u16x u = __builtin_convertvector(h, ts_u16x);
  const ts_u16x mag = (u & 0x7fff) << 13, sign = (u & 0x8000) << 16;
  const ts_v16 scaled = (ts_v16)mag * 0x1p112f;
  const ts_u16x special = (ts_u16x)((u & 0x7c00) == 0x7c00);
  return (ts_v16)((ts_u16x)scaled | sign | (special & 0x7f800000));
}

TS_BODY ts_v16 load16(const char *row, int32_t d, ts_dtype t) {
  if (t == TS_F32) return *(const ts_v16u *)(row + 4 * (int64_t)d);
  const uint16_t *h = (const uint16_t *)row + d;
  return t == TS_BF16 ? bf16_load16(h) : f16_load16(h);
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

TS_BODY void prefetch_row(const char *row, int64_t row_bytes) {
  for (int64_t k = 0; k < row_bytes; k += 64) __builtin_prefetch(row + k, 0, 3);
}

/* One bag whose width is NV vectors, known to the compiler. */
TS_BODY void bag_fixed(const ts_lookup_args *a, float *out, const char *table,
                       int64_t row_bytes, int64_t from, int64_t to,
                       int64_t n_ids, float scale, int nv, ts_dtype t) {
  ts_v16 sum[16];
  for (int v = 0; v < nv; v++) sum[v] = (ts_v16){0};
  for (int64_t i = from; i < to; i++) {
    if (i + AHEAD < n_ids)
      prefetch_row(table + a->rows[i + AHEAD] * row_bytes, row_bytes);
    const char *row = table + a->rows[i] * row_bytes;
    if (a->weights) {
      const float w = a->weights[i];
      for (int v = 0; v < nv; v++) sum[v] += w * load16(row, 16 * v, t);
    } else {
      for (int v = 0; v < nv; v++) sum[v] += load16(row, 16 * v, t);
    }
  }
  if (scale != 1.0f)
    for (int v = 0; v < nv; v++) sum[v] *= scale;
  for (int v = 0; v < nv; v++) *(ts_v16u *)(out + 16 * v) = sum[v];
}

/* Any width: the sum stays in the output. */
TS_BODY void bag_any(const ts_lookup_args *a, float *out, const char *table,
                     int64_t row_bytes, int64_t from, int64_t to, int64_t n_ids,
                     float scale, ts_dtype t) {
  const int32_t dim = a->dim, whole = dim / 16 * 16;
  for (int32_t d = 0; d < dim; d++) out[d] = 0;
  for (int64_t i = from; i < to; i++) {
    if (i + AHEAD < n_ids)
      prefetch_row(table + a->rows[i + AHEAD] * row_bytes, row_bytes);
    const char *row = table + a->rows[i] * row_bytes;
    const float w = a->weights ? a->weights[i] : 1.0f;
    for (int32_t d = 0; d < whole; d += 16)
      *(ts_v16u *)(out + d) += w * load16(row, d, t);
    for (int32_t d = whole; d < dim; d++) out[d] += w * load1(row, d, t);
  }
  if (scale != 1.0f)
    for (int32_t d = 0; d < dim; d++) out[d] *= scale;
}

TS_BODY void lookup_bags(const ts_lookup_args *a, int64_t first, int64_t end,
                         int nv, ts_dtype t) {
  const int64_t row_bytes = (t == TS_F32 ? 4 : 2) * (int64_t)a->dim;
  const int64_t n_ids = a->offsets[a->bag_start[a->n_features]];
  int64_t bag = first;
  for (int32_t f = 0; f < a->n_features && bag < end; f++) {
    const int64_t stop = a->bag_start[f + 1] < end ? a->bag_start[f + 1] : end;
    const char *table = (const char *)a->weight + a->row_base[f] * row_bytes;
    for (; bag < stop; bag++) {
      float *out = a->out + a->at[bag];
      const int64_t from = a->offsets[bag], to = a->offsets[bag + 1];
      const float scale =
          a->mean && to > from ? 1.0f / (float)(to - from) : 1.0f;
      if (nv)
        bag_fixed(a, out, table, row_bytes, from, to, n_ids, scale, nv, t);
      else
        bag_any(a, out, table, row_bytes, from, to, n_ids, scale, t);
    }
  }
}

TS_BODY void lookup_typed(const ts_lookup_args *a, int64_t first, int64_t end,
                          ts_dtype t) {
  switch (a->dim) {
  case 16:
    lookup_bags(a, first, end, 1, t);
    return;
  case 32:
    lookup_bags(a, first, end, 2, t);
    return;
  case 64:
    lookup_bags(a, first, end, 4, t);
    return;
  case 96:
    lookup_bags(a, first, end, 6, t);
    return;
  case 128:
    lookup_bags(a, first, end, 8, t);
    return;
  case 256:
    lookup_bags(a, first, end, 16, t);
    return;
  default:
    lookup_bags(a, first, end, 0, t);
    return;
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

TS_BODY void lookup_part(const ts_lookup_args *a, int p, int n) {
  const int64_t first = lookup_cut(a, p, n), end = lookup_cut(a, p + 1, n);
  if (a->dtype == TS_F32) lookup_typed(a, first, end, TS_F32);
  if (a->dtype == TS_BF16) lookup_typed(a, first, end, TS_BF16);
  if (a->dtype == TS_F16) lookup_typed(a, first, end, TS_F16);
}

#endif
