/* half.cuh - f32 to bf16 and back, two at a time, as src/dense/half.h has them
 * but for the payload of NaN, and the matrix product of a warp in bf16. */
#pragma once

#include "cuda/sparse/rounding.cuh"

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define TS_HALF_BY_HARDWARE 1
#else
#define TS_HALF_BY_HARDWARE 0
#endif

/* To nearest even; NaN stays one. */
static __device__ __forceinline__ uint32_t ts_half_bits(float f) {
  const uint32_t u = __float_as_uint(f);
  if ((u & 0x7fffffffu) > 0x7f800000u) return u >> 16 | 0x40u;
  return (u + 0x7fffu + (u >> 16 & 1)) >> 16;
}

/* LOW in the first 16 bits, HIGH in the last. */
static __device__ __forceinline__ uint32_t ts_half_pair(float low, float high) {
#if TS_HALF_BY_HARDWARE
  uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
#else
  return ts_half_bits(low) | ts_half_bits(high) << 16;
#endif
}

static __device__ __forceinline__ uint16_t ts_half_near(float f) {
  return (uint16_t)ts_half_pair(f, 0);
}

/* Elements of f32 or of bf16, as floats and back. */
static __device__ __forceinline__ float ts_to_float(float x) {
  return x;
}
static __device__ __forceinline__ float ts_to_float(uint16_t x) {
  return ts_wide_bf16(x);
}
static __device__ __forceinline__ void ts_put_float(float *to, float x) {
  *to = x;
}
static __device__ __forceinline__ void ts_put_float(uint16_t *to, float x) {
  *to = ts_half_near(x);
}

static __device__ __forceinline__ float ts_half_low(uint32_t pair) {
  return ts_float_of(pair << 16);
}
static __device__ __forceinline__ float ts_half_high(uint32_t pair) {
  return ts_float_of(pair & 0xffff0000u);
}

/* ---- products ------------------------------------------------------------ */

/* C (16, 8) += A (16, 16) B (16, 8), by the warp; C of f32, A and B of bf16 in
 * pairs along the middle.  With g = lane / 4 and t = lane % 4 a lane has
 *   a  pairs t of row g and of row g + 8, then pairs t + 4 of both
 *   b  pairs t and t + 4 of column g
 *   c  columns 2t and 2t + 1 of row g, then of row g + 8
 * as mma.m16n8k16 wants them.  Where that isn't, products of bf16 (exact in
 * f32) are added one by one, and lanes ask each other for pairs. */
static __device__ __forceinline__ void
ts_half_product(float c[4], const uint32_t a[4], const uint32_t b[2]) {
#if TS_HALF_BY_HARDWARE
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
               "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]),
                 "r"(b[1]));
#else
  const uint32_t all = 0xffffffff;
  const int lane = (int)threadIdx.x % 32, g = lane / 4, t = lane % 4;
  unsigned long long x[4][4]; /* pairs at and 4 + at of two rows, two columns */
  const unsigned long long own[3] = {(unsigned long long)a[2] << 32 | a[0],
                                     (unsigned long long)a[3] << 32 | a[1],
                                     (unsigned long long)b[1] << 32 | b[0]};
  for (int k = 0; k < 16; k++)
    x[k % 4][k / 4] =
        __shfl_sync(all, own[k % 4 < 2 ? k % 4 : 2],
                    (k % 4 < 2 ? 4 * g : 8 * t + k % 2 * 4) + k / 4);
  for (int pair = 0; pair < 8; pair++) {
    for (int k = 0; k < 4; k++) {
      const int at = pair % 4, late = pair / 4 * 32;
      const uint32_t u = (uint32_t)(x[k / 2][at] >> late);
      const uint32_t v = (uint32_t)(x[2 + k % 2][at] >> late);
      c[k] = __fadd_rn(c[k], __fmul_rn(ts_half_low(u), ts_half_low(v)));
      c[k] = __fadd_rn(c[k], __fmul_rn(ts_half_high(u), ts_half_high(v)));
    }
  }
#endif
}

/* The 16 x 16 elements of bf16 at X in shared memory, rows PITCH words apart
 * and 16 bytes aligned, by the warp: four 8 x 8 of them, of rows from 0 and
 * from 8 on, then those to their right.  A lane has pair t of row g of each: it
 * is A of a product, and where rows are columns of B to[k], to[k + 2] are 8 of
 * them. TURNED: rows 2t and 2t + 1 of column g; to[2k], to[2k + 1] are 8
 * columns of B. */
template <bool TURNED>
static __device__ __forceinline__ void
ts_half_square(uint32_t to[4], const uint32_t *x, int pitch) {
  const int lane = (int)threadIdx.x % 32;
#if TS_HALF_BY_HARDWARE
  const uint32_t row =
      (uint32_t)__cvta_generic_to_shared(x + lane % 16 * pitch + lane / 16 * 4);
  if (TURNED)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 "
                 "{%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(row)
                 : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 "
                 "{%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(row)
                 : "memory");
#else
  const int g = lane / 4, t = lane % 4, half = g % 2 * 16;
  for (int k = 0; k < 4; k++) {
    const uint32_t *at = x + k % 2 * 8 * pitch + k / 2 * 4;
    if (!TURNED) {
      to[k] = at[g * pitch + t];
      continue;
    }
    at += 2 * t * pitch + g / 2;
    to[k] = (at[0] >> half & 0xffff) | at[pitch] >> half << 16;
  }
#endif
}
