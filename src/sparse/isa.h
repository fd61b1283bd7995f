/* isa.h - one body, several instruction sets.
 *
 * Row functions are always-inline bodies in plain C with a wrapper per
 * instruction set, whose target attribute decides how the loops are
 * vectorised.  The large kernels use GCC's vector types and are built in one
 * file per set (kernels_*.c).  Contraction is off and every reduction over a
 * row has 16 fixed partial sums, so all versions give the same bits.
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

/* Sum of squares of N floats, in 16 partial sums. */
TS_BODY float ts_row_sum_squares(const float *x, int32_t n) {
  float part[16] = {0};
  int32_t i = 0;
  for (; i + 16 <= n; i += 16)
    for (int k = 0; k < 16; k++) part[k] += x[i + k] * x[i + k];
  for (int k = 0; i < n; i++, k++) part[k] += x[i] * x[i];
  return ts_v16_sum(part);
}

/* The same of g + l2 w. */
TS_BODY float ts_row_sum_squares_l2(const float *g, const float *w, float l2,
                                    int32_t n) {
  float part[16] = {0};
  int32_t i = 0;
  for (; i + 16 <= n; i += 16)
    for (int k = 0; k < 16; k++) {
      const float x = g[i + k] + l2 * w[i + k];
      part[k] += x * x;
    }
  for (int k = 0; i < n; i++, k++) {
    const float x = g[i] + l2 * w[i];
    part[k] += x * x;
  }
  return ts_v16_sum(part);
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
