/* cross_body.h - what cross layers and factorisation machines do by element,
 * for each instruction set: plain loops over rows, which the compiler turns
 * into vectors. */
#pragma once

#include <string.h>

#include "dense/half.h"
#include "kernel_table.h"

static void cross_row_half(const ts_cross_args *a, int64_t i) {
  const int64_t at = i * a->stride;
  const uint16_t *restrict x0 = (const uint16_t *)a->x0 + at;
  const uint16_t *restrict x = (const uint16_t *)a->x + at;
  const uint16_t *restrict t = (const uint16_t *)a->t + i * a->t_stride;
  uint16_t *restrict y = a->y ? (uint16_t *)a->y + at : NULL;
  float *restrict y32 = a->y ? NULL : a->y32 + at;
  for (int32_t k = 0; y && k < a->width; k++)
    y[k] = ts_half_of(ts_half_float(x0[k]) * ts_half_float(t[k]) +
                      ts_half_float(x[k]));
  for (int32_t k = 0; y32 && k < a->width; k++)
    y32[k] = ts_half_float(x0[k]) * ts_half_float(t[k]) + ts_half_float(x[k]);
}

static void cross_row(const ts_cross_args *a, int64_t i) {
  const float *restrict x0 = (const float *)a->x0 + i * a->stride;
  const float *restrict x = (const float *)a->x + i * a->stride;
  const float *restrict t = (const float *)a->t + i * a->t_stride;
  float *restrict y = (float *)a->y + i * a->stride;
  for (int32_t k = 0; k < a->width; k++) y[k] = x0[k] * t[k] + x[k];
}

/* Columns of a row by blocks, whose dy lies in the first-level cache. */
enum { CROSS_BLOCK = 1024 };
typedef struct cross_block {
  int64_t at, t_at; /* in arrays of STRIDE and of T_STRIDE */
  int32_t n;
} cross_block;

/* dy + add of a block, in SIDE where it doesn't lie in dy. */
static const float *cross_dy(const ts_cross_args *a, const cross_block *b,
                             float *restrict side) {
  float *restrict dy = (float *)a->dy + b->at;
  const float *restrict add = a->add;
  if (!add) return dy;
  for (int32_t k = 0; k < b->n; k++) side[k] = dy[k] + add[b->at + k];
  if (a->t) memcpy(dy, side, (size_t)b->n * sizeof *side);
  return side;
}

/* The same in SIDE: it is rounded in dy alone, for the next pass. */
static void cross_dy_half(const ts_cross_args *a, const cross_block *b,
                          float *restrict side) {
  uint16_t *restrict dy = (uint16_t *)a->dy + b->at;
  const uint16_t *restrict add = a->add;
  if (a->dy32)
    memcpy(side, a->dy32 + b->at, (size_t)b->n * sizeof *side);
  else
    for (int32_t k = 0; k < b->n; k++) side[k] = ts_half_float(dy[k]);
  if (!add) return;
  for (int32_t k = 0; k < b->n; k++) side[k] += ts_half_float(add[b->at + k]);
  for (int32_t k = 0; a->t && k < b->n; k++) dy[k] = ts_half_of(side[k]);
}

/* The sum over layers begins with 0 in the first of them. */
static void cross_grad_half(const ts_cross_args *a, const cross_block *b) {
  float dy[CROSS_BLOCK];
  uint16_t *restrict dx0 = (uint16_t *)a->dx0 + b->at;
  const uint16_t *restrict x0 = (const uint16_t *)a->x0 + b->at;
  cross_dy_half(a, b, dy);
  if (a->first) memset(dx0, 0, (size_t)b->n * sizeof *dx0);
  if (!a->t) {
    for (int32_t k = 0; k < b->n; k++)
      dx0[k] = ts_half_of(ts_half_float(dx0[k]) + dy[k]);
    return;
  }
  const uint16_t *restrict t = (const uint16_t *)a->t + b->t_at;
  uint16_t *restrict dt = (uint16_t *)a->dt + b->t_at;
  for (int32_t k = 0; k < b->n; k++) {
    dx0[k] = ts_half_of(ts_half_float(dx0[k]) + dy[k] * ts_half_float(t[k]));
    dt[k] = ts_half_of(dy[k] * ts_half_float(x0[k]));
  }
}

static void cross_grad_float(const ts_cross_args *a, const cross_block *b) {
  float side[CROSS_BLOCK];
  const float *restrict dy = cross_dy(a, b, side);
  const float *restrict x0 = (const float *)a->x0 + b->at;
  float *restrict dx0 = (float *)a->dx0 + b->at;
  if (!a->t) {
    for (int32_t k = 0; k < b->n; k++)
      dx0[k] = (a->first ? 0.0f : dx0[k]) + dy[k];
    return;
  }
  const float *restrict t = (const float *)a->t + b->t_at;
  float *restrict dt = (float *)a->dt + b->t_at;
  if (a->first)
    for (int32_t k = 0; k < b->n; k++) {
      dx0[k] = dy[k] * t[k];
      dt[k] = dy[k] * x0[k];
    }
  else
    for (int32_t k = 0; k < b->n; k++) {
      dx0[k] += dy[k] * t[k];
      dt[k] = dy[k] * x0[k];
    }
}

static void cross_grad_row(const ts_cross_args *a, int64_t i) {
  for (int32_t c = 0; c < a->width; c += CROSS_BLOCK) {
    const int32_t left = a->width - c;
    const cross_block b = {i * a->stride + c, i * a->t_stride + c,
                           left < CROSS_BLOCK ? left : CROSS_BLOCK};
    if (a->half)
      cross_grad_half(a, &b);
    else
      cross_grad_float(a, &b);
  }
}

/* ---- factorisation machine ----------------------------------------------- */

enum { FM_BLOCK = 16 };

/* Sums of M <= FM_BLOCK coordinates over the vectors of a row, from
 * coordinate D on; returns the sum of their squares. */
static float fm_sums(float sum[FM_BLOCK], const float *x, int32_t n_vectors,
                     int32_t dim, int32_t m) {
  float square[FM_BLOCK] = {0}, total = 0;
  for (int k = 0; k < FM_BLOCK; k++) sum[k] = 0;
  for (int32_t v = 0; v < n_vectors; v++) {
    const float *p = x + (int64_t)v * dim;
    for (int32_t k = 0; k < m; k++) {
      sum[k] += p[k];
      square[k] += p[k] * p[k];
    }
  }
  for (int k = 0; k < FM_BLOCK; k++) total += square[k];
  return total;
}

/* All scalars of the row in FM_BLOCK partial sums. */
static float fm_flat(const float *x, int32_t n, float *square) {
  float sum[FM_BLOCK], total = 0;
  *square = fm_sums(sum, x, n / FM_BLOCK, FM_BLOCK, FM_BLOCK);
  for (int k = 0; k < FM_BLOCK; k++) total += sum[k];
  for (int32_t k = n / FM_BLOCK * FM_BLOCK; k < n; k++) {
    total += x[k];
    *square += x[k] * x[k];
  }
  return total;
}

static int32_t fm_block(const ts_fm_args *a, int32_t d) {
  return a->dim - d < FM_BLOCK ? a->dim - d : FM_BLOCK;
}

static void fm_row(const ts_fm_args *a, int64_t i) {
  const float *x = a->x + i * a->stride;
  float sum[FM_BLOCK], fm = 0, square;
  if (a->dim == 1) {
    const float s = fm_flat(x, a->n_vectors, &square);
    fm = s * s - square;
  }
  for (int32_t d = 0; a->dim > 1 && d < a->dim; d += FM_BLOCK) {
    fm -= fm_sums(sum, x + d, a->n_vectors, a->dim, fm_block(a, d));
    for (int k = 0; k < FM_BLOCK; k++) fm += sum[k] * sum[k];
  }
  a->out[i * a->out_stride] = 0.5f * fm;
}

static void fm_grad_row(const ts_fm_args *a, int64_t i) {
  const float *restrict x = a->x + i * a->stride;
  float *restrict dx = a->dx + i * a->stride;
  const float g = a->grad[i * a->out_stride];
  float sum[FM_BLOCK], square;
  if (a->dim == 1) {
    const float s = fm_flat(x, a->n_vectors, &square);
    for (int32_t k = 0; k < a->n_vectors; k++) dx[k] += g * (s - x[k]);
    return;
  }
  for (int32_t d = 0; d < a->dim; d += FM_BLOCK) {
    const int32_t m = fm_block(a, d);
    (void)fm_sums(sum, x + d, a->n_vectors, a->dim, m);
    for (int32_t v = 0; v < a->n_vectors; v++)
      for (int32_t k = 0; k < m; k++)
        dx[v * a->dim + d + k] += g * (sum[k] - x[v * a->dim + d + k]);
  }
}
