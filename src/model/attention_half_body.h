/* attention_half_body.h - factors of attention's products as pairs of bf16, to
 * nearest even: an instruction adds the two products of a pair to an f32 sum.
 * attention_float_body.h has the same names for f32. */
#pragma once

enum { PER = 2 }; /* numbers in a factor: the first one in its lower half */
typedef __m512i factors;

/* The scale comes behind the product: queries times it would round otherwise
 * than queries do. */
TS_BODY float packed_scale(const ts_attention_args *t) {
  (void)t;
  return 1;
}
TS_BODY float scale_left(const ts_attention_args *t) {
  return t->scale;
}

TS_BODY factors load_factors(const factor *x) {
  return _mm512_loadu_si512(x);
}
TS_BODY ts_vec add_product(ts_vec sum, factor x, factors v) {
  const __m512i same = _mm512_set1_epi32((int)x);
  return (ts_vec)_mm512_dpbf16_ps((__m512)sum, (__m512bh)v, (__m512bh)same);
}

/* TIMES X[C .. C + 16), zeros from END on. */
TS_BODY __m512 sixteen(const float *x, int64_t c, int64_t end, float times) {
  const int64_t n = end - c;
  const __mmask16 there = (__mmask16)(n >= 16 ? 0xffff : (1 << n) - 1);
  return _mm512_set1_ps(times) * _mm512_maskz_loadu_ps(there, x + c);
}

TS_BODY __m512i two(__m512 first, __m512 last) {
  return (__m512i)_mm512_cvtne2ps_pbh(last, first);
}

/* Pairs of LOW's and HIGH's numbers. */
TS_BODY __m512i pairs_of(__m512 low, __m512 high) {
  static const uint16_t places[32] = {
      0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
      8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  return _mm512_permutexvar_epi16(_mm512_loadu_si512(places), two(low, high));
}

/* TO (n, padded(factors_of(dim))) = TIMES times rows of DIM, zeros behind them:
 * factors of a product along these. */
static void pack_along(factor *restrict to, const float *x, int64_t stride,
                       int64_t n, int32_t dim, float times) {
  const int64_t pad = padded((dim + PER - 1) / PER);
  for (int64_t r = 0; r < n; r++, to += pad, x += stride)
    for (int64_t c = 0; c < dim; c += 32)
      _mm512_storeu_si512(to + c / PER,
                          two(sixteen(x, c, dim, times),
                              c + 16 < dim ? sixteen(x, c + 16, dim, times)
                                           : _mm512_setzero_ps()));
}

/* TO ((n + 1) / 2, dim), PAD apart: pairs of neighbouring rows, a last one with
 * zeros: factors of a product across these. */
TS_BODY void pack_pairs(factor *restrict to, const float *x, int64_t stride,
                        int64_t n, int64_t dim, int64_t pad, float times) {
  for (int64_t r = 0; r < n; r += PER, to += pad, x += PER * stride)
    for (int64_t c = 0; c < dim; c += 16)
      _mm512_storeu_si512(
          to + c, pairs_of(sixteen(x, c, dim, times),
                           r + 1 < n ? sixteen(x + stride, c, dim, times)
                                     : _mm512_setzero_ps()));
}

/* The same rows, times TIMES, across to ACROSS and transposed to TURNED. */
static void pack_both(factor *turned, factor *across, factor *room,
                      const float *x, int64_t stride, int64_t n, int32_t dim,
                      float times) {
  pack_pairs(across, x, stride, n, dim, padded(dim), times);
  pack_along(room, x, stride, n, dim, times);
  turn_rows(turned, room, n, (dim + PER - 1) / PER);
}

/* Both in ROOM. */
static attention_side along(factor *room, const float *x, int64_t stride,
                            int64_t n, int32_t dim) {
  pack_along(room, x, stride, n, dim, 1);
  return (attention_side){room, padded((dim + PER - 1) / PER)};
}
static attention_side across(factor *room, const float *x, int64_t stride,
                             int64_t n, int32_t dim) {
  pack_pairs(room, x, stride, n, dim, padded(dim), 1);
  return (attention_side){room, padded(dim)};
}

/* The numbers of a tile (n_j, TILE), n_i of each row, as factors: along rows,
 * which are TILE / PER factors apart, or across them.  With an odd n_i X gets a
 * 0 behind each row, where anything may have been. */
static const factor *tile_along(factor *room, float *x, int64_t n_j,
                                int64_t n_i) {
  for (int64_t r = 0; r < n_j; r++, x += TILE) {
    factor *to = room + r * (TILE / PER);
    if (n_i % PER) x[n_i] = 0;
    for (int64_t c = 0; c < n_i; c += 16)
      _mm256_storeu_si256((__m256i *)(to + c / PER),
                          (__m256i)_mm512_cvtneps_pbh(_mm512_loadu_ps(x + c)));
  }
  return room;
}
static const factor *tile_across(factor *room, const float *x, int64_t n_j,
                                 int64_t n_i) {
  pack_pairs(room, x, TILE, n_j, padded(n_i), TILE, 1);
  return room;
}
