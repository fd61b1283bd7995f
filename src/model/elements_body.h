/* elements_body.h - what goes by element, for each instruction set: plain loops
 * over rows, which the compiler turns into vectors; arrays may be the same. */
#pragma once

#include <stdint.h>

#include "kernel_table.h"

#define TS_EACH(c, n)                                                          \
  _Pragma("omp simd") for (int64_t c = 0; c < (int64_t)(n); c++)

/* ---- map ----------------------------------------------------------------- */

/* Z of N elements: CALL(a's stride, x's stride) with the commonest known. */
#define TS_MAP_ROW(a_c, x_c)                                                   \
  do {                                                                         \
    if (sum && add)                                                            \
      TS_EACH(j, n) y[j] += scale * a[j * (a_c)] + x[j * (x_c)];               \
    else if (sum)                                                              \
      TS_EACH(j, n) y[j] = scale * a[j * (a_c)] + x[j * (x_c)];                \
    else if (add)                                                              \
      TS_EACH(j, n) y[j] += scale * a[j * (a_c)] * x[j * (x_c)];               \
    else                                                                       \
      TS_EACH(j, n) y[j] = scale * a[j * (a_c)] * x[j * (x_c)];                \
  } while (0)

/* sin(2 pi t), or cos, within 3 units of 2^-24: of w in a quarter of a turn,
 * which is exact, by a polynomial (sin(2 pi w) / w at Chebyshev's nodes). */
TS_BODY float wave(bool cosine, float t) {
  const float r = t - rintf(t), size = fabsf(r), rest = 0.5f - size;
  const float w =
      cosine ? 0.25f - size : copysignf(size < rest ? size : rest, r);
  const float u = w * w;
  float y = 39.7598267f;
  y = y * u - 76.5811691f;
  y = y * u + 81.602478f;
  y = y * u - 41.3416824f;
  y = y * u + 6.28318548f;
  return y * w;
}

/* The commonest: frequencies that lie side by side, one number. */
TS_BODY void wave_row(const ts_map_args *t, bool cosine, int64_t n, float *y,
                      const float *a, const float *x) {
  const float scale = t->scale, of = scale * *x;
  if (t->ys.c == 1 && t->as.c == 1 && t->xs.c == 0 && !t->add)
    TS_EACH(j, n) y[j] = wave(cosine, of * a[j]);
  else
    for (int64_t j = 0; j < n; j++) {
      const float v = wave(cosine, scale * a[j * t->as.c] * x[j * t->xs.c]);
      y[j * t->ys.c] = t->add ? y[j * t->ys.c] + v : v;
    }
}

static void map_row(const ts_map_args *t, int64_t n, float *y, const float *a,
                    const float *x) {
  const bool sum = t->op == TS_MAP_SUM, add = t->add;
  const float scale = t->scale;
  if (t->op == TS_MAP_SIN)
    wave_row(t, false, n, y, a, x);
  else if (t->op == TS_MAP_COS)
    wave_row(t, true, n, y, a, x);
  else if (t->ys.c != 1)
    for (int64_t j = 0; j < n; j++) {
      const float z = scale * a[j * t->as.c];
      const float v = sum ? z + x[j * t->xs.c] : z * x[j * t->xs.c];
      y[j * t->ys.c] = add ? y[j * t->ys.c] + v : v;
    }
  else if (t->as.c == 1 && t->xs.c == 1)
    TS_MAP_ROW(1, 1);
  else if (t->as.c == 1 && t->xs.c == 0)
    TS_MAP_ROW(1, 0);
  else
    TS_MAP_ROW(t->as.c, t->xs.c);
}

/* Rows that follow each other become one, where all arrays' do. */
static bool rows_follow(const ts_map_args *t, int64_t n_j, bool by_h) {
#define FOLLOW(s) ((by_h ? t->s.h : t->s.r) == n_j * t->s.c)
  return FOLLOW(ys) && FOLLOW(as) && FOLLOW(xs);
#undef FOLLOW
}

static ts_err map(const ts_map_args *args) {
  static const float one = 1;
  ts_map_args own = *args, *const t = &own;
  int64_t n_j = t->n_j, n_i = t->n_i, n_h = t->n_h;
  if (!t->x) {
    t->x = &one;
    t->xs = (ts_stride4){0};
  }
  if (n_j == 1) {
    n_j = n_i, n_i = 1;
    t->ys.c = t->ys.r, t->as.c = t->as.r, t->xs.c = t->xs.r;
  }
  if (n_i == 1 || rows_follow(t, n_j, false)) {
    n_j *= n_i, n_i = 1;
    if (rows_follow(t, n_j, true)) n_j *= n_h, n_h = 1;
  }
  const int64_t each = n_h * n_i;
#pragma omp parallel for schedule(static)
  for (int64_t r = 0; r < t->n_b * each; r++) {
    const int64_t b = r / each, h = r / n_i % n_h, i = r % n_i;
    map_row(t, n_j, t->y + b * t->ys.b + h * t->ys.h + i * t->ys.r,
            t->a + b * t->as.b + h * t->as.h + i * t->as.r,
            t->x + b * t->xs.b + h * t->xs.h + i * t->xs.r);
  }
  return TS_OK;
}

/* ---- columns ------------------------------------------------------------- */

static ts_err column_apply(const ts_column_apply_args *t) {
  const float *u = t->u, *v = t->v, *w = t->w;
#pragma omp parallel for schedule(static)
  for (int64_t r = 0; r < t->rows; r++) {
    const float *x = t->x + r * t->x_stride;
    const float *z = t->z ? t->z + r * t->z_stride : NULL;
    float *y = t->y + r * t->y_stride;
    if (z)
      TS_EACH(c, t->n) y[c] = u[c] * x[c] + v[c] * z[c] + w[c];
    else
      TS_EACH(c, t->n) y[c] = u[c] * x[c] + w[c];
  }
  return TS_OK;
}

/* ---- dropout ------------------------------------------------------------- */

enum { PHILOX = 16 }; /* calls at once */

/* Words 4 l + k: of the call for columns 4 (q + l) .. of a row. */
static void philox_row(uint32_t word[4 * PHILOX], uint64_t row, uint32_t q,
                       const uint32_t key[2]) {
#define HIGH(a, b) (uint32_t)((uint64_t)(a) * (b) >> 32)
  const uint32_t m = 0xD2511F53u, n = 0xCD9E8D57u;
  uint32_t a[PHILOX], b[PHILOX], c[PHILOX], d[PHILOX];
  uint32_t k0 = key[0], k1 = key[1];
  for (uint32_t l = 0; l < PHILOX; l++) {
    a[l] = (uint32_t)row, b[l] = (uint32_t)(row >> 32);
    c[l] = q + l, d[l] = 0;
  }
  for (int round = 0; round < 10; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u)
#pragma omp simd
    for (int l = 0; l < PHILOX; l++) {
      const uint32_t x = HIGH(n, c[l]) ^ b[l] ^ k0;
      const uint32_t y = HIGH(m, a[l]) ^ d[l] ^ k1;
      b[l] = n * c[l], d[l] = m * a[l];
      a[l] = x, c[l] = y;
    }
#undef HIGH
  for (int l = 0; l < PHILOX; l++) {
    word[4 * l] = a[l], word[4 * l + 1] = b[l];
    word[4 * l + 2] = c[l], word[4 * l + 3] = d[l];
  }
}

static ts_err dropout(const ts_dropout_args *t) {
  const float keep = 1 / (1 - t->p), p = t->p;
#pragma omp parallel for schedule(static)
  for (int64_t r = 0; r < t->rows; r++)
    for (int32_t at = 0; at < t->n; at += 4 * PHILOX) {
      uint32_t word[4 * PHILOX];
      const float *x = t->x + r * t->x_stride + at;
      float *y = t->y + r * t->y_stride + at;
      const int32_t n = t->n - at < 4 * PHILOX ? t->n - at : 4 * PHILOX;
      philox_row(word, (uint64_t)(t->first + r), (uint32_t)at / 4, t->key);
      TS_EACH(c, n) {
        const float v = keep * x[c];
        y[c] = (float)(int32_t)(word[c] >> 8) * 0x1p-24f < p ? 0 : v;
      }
    }
  return TS_OK;
}
