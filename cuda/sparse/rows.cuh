/* rows.cuh - rows of a table in f32, bf16 or f16: vectors of 2 to 16 bytes,
 * as they are loaded, and as floats. */
#pragma once

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif
#include <stdint.h>

#include "cuda/sparse/few_bits.cuh"

struct ts_row_f32 {
  typedef uint32_t bits;
  static __device__ __forceinline__ float to_float(uint32_t x) {
    return __uint_as_float(x);
  }
};
struct ts_row_bf16 {
  typedef unsigned short bits;
  static __device__ __forceinline__ float to_float(unsigned short x) {
    return __uint_as_float((uint32_t)x << 16);
  }
};
struct ts_row_f16 {
  typedef unsigned short bits;
  static __device__ __forceinline__ float to_float(unsigned short x) {
    return __half2float(__ushort_as_half(x));
  }
};

/* In few bits: a lane has a word of V numbers (cuda/sparse/few_bits.cuh). */
struct ts_row_int8 {
  static constexpr ts_dtype dtype = TS_INT8;
  enum { V = 4 };
};
struct ts_row_int4 {
  static constexpr ts_dtype dtype = TS_INT4;
  enum { V = 8 };
};

/* The type that BYTES bytes are loaded as. */
template <int BYTES> struct ts_raw;
template <> struct ts_raw<2> { typedef unsigned short type; };
template <> struct ts_raw<4> { typedef uint32_t type; };
template <> struct ts_raw<8> { typedef uint2 type; };
template <> struct ts_raw<16> { typedef uint4 type; };

/* Rows are read once by a kernel, more or less, and nobody writes them
 * meanwhile: by the read-only path, without a place in the first cache, which
 * ids, offsets and gradients need. */
static __device__ __forceinline__ uint4 ts_row_load(const uint4 *p) {
#ifdef __CUDA_ARCH__
  uint4 v;
  asm("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
      : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
      : "l"(p));
  return v;
#else
  return __ldg(p);
#endif
}
static __device__ __forceinline__ uint2 ts_row_load(const uint2 *p) {
#ifdef __CUDA_ARCH__
  uint2 v;
  asm("ld.global.nc.L1::no_allocate.v2.u32 {%0, %1}, [%2];"
      : "=r"(v.x), "=r"(v.y)
      : "l"(p));
  return v;
#else
  return __ldg(p);
#endif
}
/* Rows loaded by element: neighbouring threads share what one of them loads. */
static __device__ __forceinline__ uint32_t ts_row_load(const uint32_t *p) {
  return __ldg(p);
}
static __device__ __forceinline__ unsigned short
ts_row_load(const unsigned short *p) {
  return __ldg(p);
}

/* P itself: keeps the compiler from working the address out again for each
 * element. */
template <class T>
static __device__ __forceinline__ const T *ts_kept(const T *p) {
#ifdef __CUDA_ARCH__
  asm("" : "+l"(p));
#endif
  return p;
}

static __device__ __forceinline__ uint32_t ts_raw_word(uint4 v, int i) {
  return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}
static __device__ __forceinline__ uint32_t ts_raw_word(uint2 v, int i) {
  return i == 0 ? v.x : v.y;
}
static __device__ __forceinline__ uint32_t ts_raw_word(uint32_t v, int) {
  return v;
}
static __device__ __forceinline__ uint32_t ts_raw_word(unsigned short v, int) {
  return v;
}

/* Element I of V, I known to the compiler. */
template <class Row, class Raw>
static __device__ __forceinline__ float ts_raw_float(Raw v, int i) {
  if (sizeof(typename Row::bits) == 4)
    return Row::to_float((typename Row::bits)ts_raw_word(v, i));
  return Row::to_float(
      (typename Row::bits)(ts_raw_word(v, i / 2) >> 16 * (i % 2)));
}

/* V floats at P, which may lie on any border of 4 bytes. */
template <int V>
static __device__ __forceinline__ void ts_floats_load(float *x,
                                                      const float *p) {
  if (V % 4 == 0 && (uintptr_t)p % 16 == 0) {
#pragma unroll
    for (int i = 0; i < V / 4; i++) {
      const float4 v = __ldg((const float4 *)p + i);
      x[4 * i] = v.x, x[4 * i + 1] = v.y;
      x[4 * i + 2] = v.z, x[4 * i + 3] = v.w;
    }
  } else {
#pragma unroll
    for (int i = 0; i < V; i++) x[i] = __ldg(p + i);
  }
}
template <int V>
static __device__ __forceinline__ void ts_floats_store(float *p,
                                                       const float *x) {
  if (V % 4 == 0 && (uintptr_t)p % 16 == 0) {
#pragma unroll
    for (int i = 0; i < V / 4; i++)
      ((float4 *)p)[i] =
          make_float4(x[4 * i], x[4 * i + 1], x[4 * i + 2], x[4 * i + 3]);
  } else {
#pragma unroll
    for (int i = 0; i < V; i++) p[i] = x[i];
  }
}
