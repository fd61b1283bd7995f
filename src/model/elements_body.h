/* elements_body.h - what goes by element, for each instruction set: plain loops
 * over rows, which the compiler turns into vectors; arrays may be the same. */
#pragma once

#include <stdint.h>
#include <string.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

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

/* The rows of all b follow each other, too: N numbers, in parts. */
static ts_err map_flat(const ts_map_args *t, int64_t n) {
  enum { PART = 4096 };
#pragma omp parallel for schedule(static)
  for (int64_t at = 0; at < n; at += PART)
    map_row(t, n - at < PART ? n - at : PART, t->y + at * t->ys.c,
            t->a + at * t->as.c, t->x + at * t->xs.c);
  return TS_OK;
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
  if (each == 1 && t->ys.b == n_j * t->ys.c && t->as.b == n_j * t->as.c &&
      t->xs.b == n_j * t->xs.c)
    return map_flat(t, t->n_b * n_j);
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

enum { PHILOX = 16 }; /* calls at once, N_TOGETHER in a register */

/* Words in the lower halves of 64 bits, where products have their factors; what
 * is above counts for nothing. */
#ifdef __AVX512F__
enum { N_TOGETHER = 8 };
typedef uint64_t words __attribute__((vector_size(64)));
static const words in_order = {0, 1, 2, 3, 4, 5, 6, 7};
static inline words times(words a, words b) {
  return (words)_mm512_mul_epu32((__m512i)a, (__m512i)b);
}
#else
enum { N_TOGETHER = 4 };
typedef uint64_t words __attribute__((vector_size(32)));
static const words in_order = {0, 1, 2, 3};
static inline words times(words a, words b) {
#ifdef __AVX2__
  return (words)_mm256_mul_epu32((__m256i)a, (__m256i)b);
#else
  return (a & UINT32_MAX) * (b & UINT32_MAX);
#endif
}
#endif
static inline words all(uint64_t x) {
  return (words){0} + x;
}

/* Word 4 l + k: of the call for columns 4 (q + l) .. of a row, or of the token
 * at PLACE of it. */
static void philox_row(uint32_t word[4 * PHILOX], uint64_t row, uint32_t place,
                       uint32_t q, const uint32_t key[2]) {
  enum { GROUPS = PHILOX / N_TOGETHER };
  const words m = all(0xD2511F53u), n = all(0xCD9E8D57u), low = all(UINT32_MAX);
  words a[GROUPS], b[GROUPS], c[GROUPS], d[GROUPS], first[GROUPS], last[GROUPS];
  uint32_t k0 = key[0], k1 = key[1];
  for (uint32_t g = 0; g < GROUPS; g++) {
    a[g] = all(row), b[g] = all(row >> 32);
    c[g] = in_order + q + g * N_TOGETHER, d[g] = all(place);
  }
  for (int round = 0; round < 10; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u)
    for (int g = 0; g < GROUPS; g++) {
      const words x = times(n, c[g]), y = times(m, a[g]);
      a[g] = x >> 32 ^ b[g] ^ all(k0), c[g] = y >> 32 ^ d[g] ^ all(k1);
      b[g] = x, d[g] = y;
    }
  for (int g = 0; g < GROUPS; g++) {
    first[g] = (a[g] & low) | b[g] << 32;
    last[g] = (c[g] & low) | d[g] << 32;
  }
  uint64_t both[2 * PHILOX];
#pragma omp simd
  for (int l = 0; l < PHILOX; l++) {
    both[2 * l] = ((const uint64_t *)first)[l];
    both[2 * l + 1] = ((const uint64_t *)last)[l];
  }
  memcpy(word, both, sizeof both);
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
      philox_row(word, (uint64_t)(t->first + (t->sample ? t->sample[r] : r)),
                 t->sample ? (uint32_t)t->position[r] : 0, (uint32_t)at / 4,
                 t->key);
      TS_EACH(c, n) {
        const float v = keep * x[c];
        y[c] = (float)(int32_t)(word[c] >> 8) * 0x1p-24f < p ? 0 : v;
      }
    }
  return TS_OK;
}
