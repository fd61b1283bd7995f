/* interact_bf16.c - DLRM's dot interaction with products of bf16 (AVX512-BF16):
 * pairs of factors are multiplied and added to an f32 sum in one instruction.
 *
 * Forward, pairs run over dimensions: xd has the rows in bf16, xt the same
 * pairs transposed, so that the sums of one vector with 16 others fill a
 * register and leave it for out without being gathered.  Backward, pairs run
 * over vectors: dx_i = sum_j g_ij x_j takes x_2p and x_2p+1 at once.  The
 * matrix g is symmetric: u holds the part above the diagonal by rows, v the
 * same part with two rows interleaved, which is what a row needs from below the
 * diagonal. */
#include <omp.h>

#include "base/mem.h"
#include "runtime/backends.h"

#if defined(__x86_64__) && (defined(__clang__) || __GNUC__ >= 10)
#include <immintrin.h>
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")
#pragma GCC target("avx2,fma,prefer-vector-width=512")
#define TS_WIDTH 16
#include "dense/interact_body.h"

enum { BLOCK = 8, UP = 4, UP_VECS = 4 };

/* FROM[D .. D + 16), zeros from END on; WHOLE, as in all that follows: dim is a
 * multiple of 32, and nothing of the kind is asked. */
TS_BODY __m512 some(const float *from, int64_t d, int64_t end, bool whole) {
  if (whole || d + 16 <= end) return _mm512_loadu_ps(from + d);
  if (d >= end) return _mm512_setzero_ps();
  return _mm512_maskz_loadu_ps((__mmask16)((1u << (end - d)) - 1), from + d);
}

TS_BODY __m512i two(__m512 low, __m512 high) {
  return (__m512i)_mm512_cvtne2ps_pbh(high, low);
}

TS_BODY __m512 dot(__m512 sum, __m512i x, __m512i y) {
  return _mm512_dpbf16_ps(sum, (__m512bh)x, (__m512bh)y);
}

/* ---- forward --------------------------------------------------------------
 */

/* The vectors of sample B in rows of DP bf16. */
TS_BODY void to_rows(const ts_interact_args *a, uint16_t *xd, int64_t dp,
                     int64_t b, bool whole) {
  const int32_t n = n_vectors(a);
  for (int32_t i = 0; i < n; i++) {
    const float *from = vector_of(a, i, b);
    for (int64_t d = 0; d < dp; d += 32)
      _mm512_storeu_si512(
          xd + i * dp + d,
          two(some(from, d, a->dim, whole), some(from, d + 16, a->dim, whole)));
  }
}

/* 16 x 16 numbers of 32 bits; strides in numbers. */
TS_BODY void transpose(uint32_t *to, int64_t to_stride, const uint32_t *from,
                       int64_t from_stride) {
  __m512i r[16], t[16];
  for (int i = 0; i < 16; i++)
    r[i] = _mm512_loadu_si512(from + i * from_stride);
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
  }
  for (int i = 0; i < 16; i += 4)
    for (int k = 0; k < 2; k++) {
      r[i + 2 * k] = _mm512_unpacklo_epi64(t[i + k], t[i + 2 + k]);
      r[i + 2 * k + 1] = _mm512_unpackhi_epi64(t[i + k], t[i + 2 + k]);
    }
  for (int k = 0; k < 4; k++)
    for (int i = 0; i < 16; i += 8) {
      t[i + k] = _mm512_shuffle_i32x4(r[i + k], r[i + 4 + k], 0x88);
      t[i + 4 + k] = _mm512_shuffle_i32x4(r[i + k], r[i + 4 + k], 0xdd);
    }
  for (int k = 0; k < 8; k++) {
    _mm512_storeu_si512(to + k * to_stride,
                        _mm512_shuffle_i32x4(t[k], t[8 + k], 0x88));
    _mm512_storeu_si512(to + (8 + k) * to_stride,
                        _mm512_shuffle_i32x4(t[k], t[8 + k], 0xdd));
  }
}

/* A mask of the 32 columns from AT on: those in (I, N). */
TS_BODY __mmask32 above(int32_t i, int32_t at, int32_t n) {
  const uint32_t below_n = n - at >= 32 ? 0xffffffffu
                           : n <= at    ? 0
                                        : (1u << (n - at)) - 1;
  return i < at         ? below_n
         : i - at >= 31 ? 0
                        : below_n & ~((2u << (i - at)) - 1);
}

/* BLOCK rows from I on, times the VECS * 16 vectors from J on. */
TS_BODY void block_products(uint16_t *const out[], const uint32_t *xd,
                            const uint32_t *xt, int64_t dp, int64_t np,
                            int32_t i, int32_t j, int32_t n, int vecs) {
  __m512 s[BLOCK][2];
  for (int r = 0; r < BLOCK; r++)
    for (int k = 0; k < vecs; k++) s[r][k] = _mm512_setzero_ps();
  for (int64_t q = 0; q < dp / 2; q++) {
    __m512i v[2];
    for (int k = 0; k < vecs; k++)
      v[k] = _mm512_loadu_si512(xt + q * np + j + 16 * k);
    for (int r = 0; r < BLOCK; r++) {
      const __m512i u = _mm512_set1_epi32((int)xd[(i + r) * (dp / 2) + q]);
      for (int k = 0; k < vecs; k++) s[r][k] = dot(s[r][k], u, v[k]);
    }
  }
  for (int r = 0; r < BLOCK && i + r < n; r++)
    for (int k = 0; k < vecs; k++)
      _mm256_mask_storeu_epi16(out[r] + j + 16 * k,
                               (__mmask16)above(i + r, j + 16 * k, n),
                               (__m256i)_mm512_cvtneps_pbh(s[r][k]));
}

TS_BODY void half_one(const ts_interact_args *a, int64_t b, float *work,
                      bool whole) {
  const int32_t n = n_vectors(a);
  const int64_t np = ts_interact_pairs(n), dp = ts_interact_pairs(a->dim);
  uint16_t *xd = (uint16_t *)work;
  uint32_t *xt = (uint32_t *)(work + np * dp / 2);
  uint16_t *out = (uint16_t *)a->out + b * a->out_stride, *end = out;
  ask_for(a, b + AHEAD, false);
  to_rows(a, xd, dp, b, whole);
  for (int32_t j = 0; j < n; j += 16)
    for (int64_t q = 0; q < dp / 2; q += 16)
      transpose(xt + q * np + j, np, (uint32_t *)xd + j * (dp / 2) + q, dp / 2);
  if (a->bottom) {
    memcpy(out, xd, (size_t)a->dim * 2);
    end += a->dim;
  }
  for (int32_t i = 0; i < n; i += BLOCK) {
    uint16_t *rows[BLOCK];
    for (int r = 0; r < BLOCK && i + r < n; r++) {
      rows[r] = end - (i + r + 1);
      end += n - (i + r) - 1;
    }
    for (int32_t j = i / 16 * 16; j < n; j += 32)
      if (j + 16 < n)
        block_products(rows, (uint32_t *)xd, xt, dp, np, i, j, n, 2);
      else
        block_products(rows, (uint32_t *)xd, xt, dp, np, i, j, n, 1);
  }
  memset(end, 0, (size_t)(out + a->out_stride - end) * 2);
}

/* ---- backward -------------------------------------------------------------
 */

/* Vectors 2p and 2p + 1 of sample B in turns, rows of DP pairs. */
TS_BODY void to_pairs(const ts_interact_args *a, uint32_t *xp, int64_t dp,
                      int64_t b, bool whole) {
  const int32_t n = n_vectors(a);
  const __m512i turns = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11,
                                         26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21,
                                         5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  for (int32_t i = 0; i < n; i += 2) {
    const float *from = vector_of(a, i, b);
    const float *next = i + 1 < n ? vector_of(a, i + 1, b) : from;
    const int64_t end = i + 1 < n ? a->dim : 0;
    for (int64_t d = 0; d < dp; d += 16)
      _mm512_storeu_si512(xp + i / 2 * dp + d,
                          _mm512_permutexvar_epi16(
                              turns, two(some(from, d, a->dim, whole),
                                         some(next, d, end, whole && end))));
  }
}

/* U and v (see above) from the gradients of the pairs. */
TS_BODY void spread_pairs(uint16_t *u, uint32_t *v, int64_t np,
                          const uint16_t *pair, int32_t n) {
  for (int32_t i = 0; i < n; i++) {
    for (int32_t j = i / 32 * 32; j < n; j += 32)
      _mm512_storeu_si512(
          u + i * np + j,
          _mm512_maskz_loadu_epi16(above(i, j, n), pair + j - (i + 1)));
    pair += n - i - 1;
  }
  const __m512i low = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11,
                                       42, 10, 41, 9, 40, 8, 39, 7, 38, 6, 37,
                                       5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
  const __m512i high = _mm512_or_si512(low, _mm512_set1_epi16(16));
  for (int32_t i = 0; i < n; i += 2)
    for (int32_t j = i / 32 * 32; j < n; j += 32) {
      const __m512i x = _mm512_loadu_si512(u + i * np + j);
      const __m512i y = _mm512_loadu_si512(u + (i + 1) * np + j);
      uint32_t *to = v + i / 2 * np + j;
      _mm512_storeu_si512(to, _mm512_permutex2var_epi16(x, low, y));
      _mm512_storeu_si512(to + 16, _mm512_permutex2var_epi16(x, high, y));
    }
}

/* Completes u where a block of UP rows crosses the diagonal: of each pair there
 * one half is still zero. */
TS_BODY void join_blocks(uint16_t *u, const uint32_t *v, int64_t np,
                         int32_t n) {
  for (int32_t i = 0; i < n; i++) {
    uint32_t *at = (uint32_t *)(u + i * np);
    const int32_t cross = i / UP * (UP / 2);
    for (int32_t p = cross; p < cross + UP / 2; p++) at[p] |= v[p * np + i];
  }
}

TS_BODY void put_part(const ts_interact_args *a, int64_t b, int32_t i,
                      int64_t d, __m512 sum, const uint16_t *row, bool whole) {
  const int32_t f = a->bottom ? i - 1 : i, left = a->dim - (int32_t)d;
  if (!whole && left <= 0) return;
  const __mmask16 mask =
      (__mmask16)(whole || left >= 16 ? 0xffff : (1u << left) - 1);
  if (f < 0) {
    const __m256i add = _mm256_maskz_loadu_epi16(mask, row + d);
    sum = _mm512_add_ps(
        sum, (__m512)_mm512_slli_epi32(_mm512_cvtepu16_epi32(add), 16));
  }
  float *to = f < 0 ? a->grad_bottom + b * a->dim
                    : a->grad_emb[f] + b * a->emb_stride[f];
  if (whole || left >= 16)
    _mm512_storeu_ps(to + d, sum);
  else
    _mm512_mask_storeu_ps(to + d, mask, sum);
}

/* UP rows from I on, VECS vectors from dimension D on: pairs before the block
 * come from v's columns, from there on from u's rows. */
TS_BODY void block_grad(const ts_interact_args *a, int64_t b, int32_t i,
                        int64_t d, const uint16_t *u, const uint32_t *v,
                        const uint32_t *xp, int64_t np, int64_t dp, int vecs,
                        bool whole) {
  const int32_t n = n_vectors(a), n_pairs = (n + 1) / 2;
  const uint16_t *row = (const uint16_t *)a->grad + b * a->out_stride;
  const uint32_t *at = v + i;
  int64_t next_row = 1, next = np;
  __m512 s[UP][UP_VECS];
  for (int r = 0; r < UP; r++)
    for (int k = 0; k < vecs; k++) s[r][k] = _mm512_setzero_ps();
  for (int32_t p = 0; p < n_pairs; p++, at += next) {
    __m512i x[UP_VECS];
    if (p == i / 2) {
      at = (const uint32_t *)(u + i * np) + p;
      next_row = np / 2;
      next = 1;
    }
    for (int k = 0; k < vecs; k++)
      x[k] = _mm512_loadu_si512(xp + p * dp + d + 16 * k);
    for (int r = 0; r < UP; r++) {
      const __m512i g = _mm512_set1_epi32((int)at[r * next_row]);
      for (int k = 0; k < vecs; k++) s[r][k] = dot(s[r][k], g, x[k]);
    }
  }
  for (int r = 0; r < UP; r++)
    for (int k = 0; k < vecs; k++)
      if (i + r < n) put_part(a, b, i + r, d + 16 * k, s[r][k], row, whole);
}

TS_BODY void half_grad_one(const ts_interact_args *a, int64_t b, float *work,
                           bool whole) {
  const int32_t n = n_vectors(a);
  const int64_t np = ts_interact_pairs(n), dp = ts_interact_pairs(a->dim);
  uint32_t *xp = (uint32_t *)work, *v = xp + np / 2 * dp;
  uint16_t *u = (uint16_t *)(v + np * np / 2);
  const uint16_t *row = (const uint16_t *)a->grad + b * a->out_stride;
  ask_for(a, b + AHEAD, true);
  to_pairs(a, xp, dp, b, whole);
  spread_pairs(u, v, np, row + (a->bottom ? a->dim : 0), n);
  join_blocks(u, v, np, n);
  for (int32_t i = 0; i < n; i += UP) {
    int64_t d = 0;
    for (; d + 16 * UP_VECS <= dp; d += 16 * UP_VECS)
      block_grad(a, b, i, d, u, v, xp, np, dp, UP_VECS, whole);
    for (; d < dp; d += 32) block_grad(a, b, i, d, u, v, xp, np, dp, 2, whole);
  }
}

static void any_one(const ts_interact_args *a, int64_t b, float *work) {
  half_one(a, b, work, false);
}

static void whole_one(const ts_interact_args *a, int64_t b, float *work) {
  half_one(a, b, work, true);
}

static void any_grad_one(const ts_interact_args *a, int64_t b, float *work) {
  half_grad_one(a, b, work, false);
}

static void whole_grad_one(const ts_interact_args *a, int64_t b, float *work) {
  half_grad_one(a, b, work, true);
}

static ts_err forward(const ts_interact_args *a) {
  return each_sample(a, a->dim % 32 ? any_one : whole_one);
}

static ts_err backward(const ts_interact_args *a) {
  return each_sample(a, a->dim % 32 ? any_grad_one : whole_grad_one);
}

void ts_dense_kernels_avx512_bf16(ts_kernels *k) {
  k->interact_forward_half = forward;
  k->interact_backward_half = backward;
}
#else
void ts_dense_kernels_avx512_bf16(ts_kernels *k) {
  (void)k;
}
#endif
