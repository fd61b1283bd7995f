/* linear_mask.c - ReLU's mask, bias gradient and conversion in one pass. */
#include "dense/linear_mask.h"

#include "base/clones.h"
#include "dense/half.h"

enum { BLOCK = 64 };

int64_t ts_mask_parts(int32_t batch) {
  return (batch + BLOCK - 1) / BLOCK;
}

/* One row; Y NULL: no ReLU. */
TS_CLONES static void row_f32(float *out, float *restrict sum, const float *g,
                              const float *restrict y, int32_t n) {
  if (!y)
    for (int32_t k = 0; k < n; k++) sum[k] += out[k] = g[k];
  else
    for (int32_t k = 0; k < n; k++)
      sum[k] += out[k] = y[k] > 0.0f ? g[k] : 0.0f;
}

/* f32 to bf16. */
TS_CLONES static void row_to_half(uint16_t *restrict out, float *restrict sum,
                                  const float *restrict g,
                                  const float *restrict y, int32_t n) {
  for (int32_t k = 0; k < n; k++) {
    const float v = !y || y[k] > 0.0f ? g[k] : 0.0f;
    sum[k] += v;
    out[k] = ts_half_of(v);
  }
}

/* In place.  A positive bf16 is a positive int16. */
TS_CLONES static void row_half(uint16_t *restrict g, float *restrict sum,
                               const uint16_t *restrict y, int32_t n) {
  for (int32_t k = 0; k < n; k++) {
    const uint16_t v = !y || (int16_t)y[k] > 0 ? g[k] : 0;
    sum[k] += ts_half_float(v);
    g[k] = v;
  }
}

static void *row_of(const ts_rows_view *v, int64_t i) {
  return v->at ? (char *)v->at + i * v->stride * (v->half ? 2 : 4) : NULL;
}

static void mask_block(const ts_mask_args *a, float *sum, int32_t from,
                       int32_t to) {
  memset(sum, 0, (size_t)a->n * sizeof *sum);
  for (int32_t i = from; i < to; i++) {
    void *out = row_of(&a->out, i), *g = row_of(&a->g, i);
    const void *y = row_of(&a->y, i);
    if (a->g.half)
      row_half(g, sum, y, a->n);
    else if (a->out.half)
      row_to_half(out, sum, g, y, a->n);
    else
      row_f32(out, sum, g, y, a->n);
  }
}

void ts_mask_and_sum(const ts_mask_args *a) {
  const int32_t n_parts = (int32_t)ts_mask_parts(a->batch), n = a->n;
#pragma omp parallel for schedule(static)
  for (int32_t p = 0; p < n_parts; p++) {
    const int32_t end = (p + 1) * BLOCK;
    mask_block(a, a->parts + (int64_t)p * n, p * BLOCK,
               a->batch < end ? a->batch : end);
  }
  if (!a->db) return;
  memset(a->db, 0, (size_t)n * sizeof *a->db);
  for (int32_t p = 0; p < n_parts; p++) {
    const float *restrict part = a->parts + (int64_t)p * n;
    for (int32_t k = 0; k < n; k++) a->db[k] += part[k];
  }
}

/* ---- conversion ---------------------------------------------------------- */

TS_CLONES static void row_convert(uint16_t *restrict to,
                                  const float *restrict from, int64_t n) {
  for (int64_t k = 0; k < n; k++) to[k] = ts_half_of(from[k]);
}

void ts_half_rows(uint16_t *dst, int64_t dst_stride, const float *src,
                  int64_t src_stride, int64_t rows, int64_t n) {
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < rows; i++)
    row_convert(dst + i * dst_stride, src + i * src_stride, n);
}
