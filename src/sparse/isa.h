/* isa.h - one body, several instruction sets.
 *
 * Row functions are always-inline bodies in plain C with a wrapper per
 * instruction set, whose target attribute decides how the loops are
 * vectorised.  The large kernels use GCC's vector types and are built in one
 * file per set (kernels_*.c).  Contraction is off and every reduction over a
 * row has its order, so all versions give the same bits.
 * All of it is Local. */
#pragma once

#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#define TS_TARGET_AVX2 __attribute__((target("avx2,fma,f16c")))
#define TS_TARGET_AVX512                                                       \
  __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,"    \
                        "prefer-vector-width=512")))
#else
#define TS_TARGET_AVX2
#define TS_TARGET_AVX512
#endif
#define TS_TARGET_REF
#define TS_BODY static inline __attribute__((always_inline))

/* Sum of the 16 partial sums, pairwise. */
TS_BODY float ts_v16_sum(const float *x) {
  float y[8], z[4];
  for (int i = 0; i < 8; i++) y[i] = x[i] + x[i + 8];
  for (int i = 0; i < 4; i++) z[i] = y[i] + y[i + 4];
  return (z[0] + z[2]) + (z[1] + z[3]);
}

/* ---- sums over a row ------------------------------------------------------
 *
 * A quad is four neighbouring columns, (0 + 1) + (2 + 3).  Quads 32 apart are
 * added in order, which leaves 32; then l and l + 16 are added, those l and
 * l + 8, and so on.  A warp of a GPU, a lane of which has a quad, does this in
 * five exchanges.  Vectors of four floats serve every instruction set. */
typedef float ts_v4 __attribute__((vector_size(16)));
#ifdef __clang__
#define TS_SHUFFLE4(x, y, ...) __builtin_shufflevector(x, y, __VA_ARGS__)
#else
typedef int32_t ts_v4_places __attribute__((vector_size(16)));
#define TS_SHUFFLE4(x, y, ...)                                                 \
  __builtin_shuffle(x, y, (ts_v4_places){__VA_ARGS__})
#endif

/* Neighbours' sums: of A, then of B. */
TS_BODY ts_v4 ts_v4_pairs(ts_v4 a, ts_v4 b) {
  return TS_SHUFFLE4(a, b, 0, 2, 4, 6) + TS_SHUFFLE4(a, b, 1, 3, 5, 7);
}

/* The four quads of 16 columns. */
TS_BODY ts_v4 ts_row_quads(ts_v4 a, ts_v4 b, ts_v4 c, ts_v4 d) {
  return ts_v4_pairs(ts_v4_pairs(a, b), ts_v4_pairs(c, d));
}

/* N floats at X, at most four; zeros behind them. */
TS_BODY ts_v4 ts_v4_load(const float *x, int32_t n) {
  ts_v4 v = {0};
  if (n >= 4)
    memcpy(&v, x, sizeof v);
  else
    for (int32_t k = 0; k < n; k++) v[k] = x[k];
  return v;
}

/* Squares of columns [at, at + 4) of g + l2 w (w NULL: of g), N in all. */
TS_BODY ts_v4 ts_row_squares(const float *g, const float *w, float l2,
                             int32_t at, int32_t n) {
  ts_v4 x = ts_v4_load(g + at, n - at);
  if (w) x = x + l2 * ts_v4_load(w + at, n - at);
  return x * x;
}

/* The quads of columns [at, at + 16). */
TS_BODY ts_v4 ts_row_squares16(const float *g, const float *w, float l2,
                               int32_t at, int32_t n) {
  return ts_row_quads(ts_row_squares(g, w, l2, at, n),
                      ts_row_squares(g, w, l2, at + 4, n),
                      ts_row_squares(g, w, l2, at + 8, n),
                      ts_row_squares(g, w, l2, at + 12, n));
}

/* The last of the sum, from its four quads. */
TS_BODY float ts_v4_sum(ts_v4 q) {
  return (q[0] + q[2]) + (q[1] + q[3]);
}

/* Adds the squares of X, the 16 columns from AT on, to PART. */
TS_BODY void ts_row_add_squares(ts_v4 part[8], const float *x, int32_t at) {
  part[at / 16 % 8] += ts_row_squares16(x, NULL, 0, 0, 16);
}

TS_BODY float ts_row_parts_sum(const ts_v4 p[8]) {
  return ts_v4_sum(((p[0] + p[4]) + (p[2] + p[6])) +
                   ((p[1] + p[5]) + (p[3] + p[7])));
}

/* Sum of squares of g + l2 w, N columns; w NULL: of g.  Of any width: one
 * copy, so that it leaves the processor's room to those of below. */
static __attribute__((noinline, unused)) float
ts_row_any_squares(const float *g, const float *w, float l2, int32_t n) {
  ts_v4 part[8] = {{0}};
  int32_t at = 0;
  if (n < 16) return ts_v4_sum(ts_row_squares16(g, w, l2, 0, n));
  for (; at + 16 <= n; at += 16)
    part[at / 16 % 8] += ts_row_squares16(g, w, l2, at, at + 16);
  if (at < n) part[at / 16 % 8] += ts_row_squares16(g, w, l2, at, n);
  return ts_row_parts_sum(part);
}

/* The commonest widths without a branch.  What is not there is zero, which
 * changes no sum, so short rows end sooner. */
TS_BODY float ts_row_sum_squares_l2(const float *g, const float *w, float l2,
                                    int32_t n) {
#define PART(k) ts_row_squares16(g, w, l2, 16 * (k), 128)
  if (n == 128)
    return ts_v4_sum(((PART(0) + PART(4)) + (PART(2) + PART(6))) +
                     ((PART(1) + PART(5)) + (PART(3) + PART(7))));
  if (n == 64) return ts_v4_sum((PART(0) + PART(2)) + (PART(1) + PART(3)));
  if (n == 32) return ts_v4_sum(PART(0) + PART(1));
  if (n == 16) return ts_v4_sum(PART(0));
  if (n == 8) return ts_v4_sum(ts_row_squares16(g, w, l2, 0, 8));
#undef PART
  return ts_row_any_squares(g, w, l2, n);
}

TS_BODY float ts_row_sum_squares(const float *x, int32_t n) {
  return ts_row_sum_squares_l2(x, NULL, 0, n);
}

/* The three versions of a row function, from its body. */
#define TS_ROW_ROUND_VERSIONS(name)                                            \
  static void name##_ref(const ts_row *r, const ts_row_hyper *h, float *s) {   \
    name(r, h, s);                                                             \
  }                                                                            \
  TS_TARGET_AVX2 static void name##_avx2(const ts_row *r,                      \
                                         const ts_row_hyper *h, float *s) {    \
    name(r, h, s);                                                             \
  }                                                                            \
  TS_TARGET_AVX512 static void name##_avx512(                                  \
      const ts_row *r, const ts_row_hyper *h, float *s) {                      \
    name(r, h, s);                                                             \
  }
#define TS_ROW_APPLY_VERSIONS(name)                                            \
  static void name##_ref(const ts_row *r, const ts_row_hyper *h,               \
                         const float *s) {                                     \
    name(r, h, s);                                                             \
  }                                                                            \
  TS_TARGET_AVX2 static void name##_avx2(                                      \
      const ts_row *r, const ts_row_hyper *h, const float *s) {                \
    name(r, h, s);                                                             \
  }                                                                            \
  TS_TARGET_AVX512 static void name##_avx512(                                  \
      const ts_row *r, const ts_row_hyper *h, const float *s) {                \
    name(r, h, s);                                                             \
  }
#define TS_VERSIONS(name)                                                      \
  { name##_ref, name##_avx2, name##_avx512 }
