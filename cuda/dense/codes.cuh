/* codes.cuh - floats to 16 bits, to nearest even, and back: the bits of
 * base/dtype.h, NaN's included.  Who compiles for a GPU includes cuda_fp16.h
 * before. */
#pragma once

#include "cuda/sparse/rounding.cuh"

struct ts_code_bf16 {
  static __device__ __forceinline__ uint32_t narrow(float f) {
    const uint32_t u = __float_as_uint(f);
    if ((u & 0x7fffffffu) > 0x7f800000u) return u >> 16 | 0x40u;
    return (u + 0x7fffu + (u >> 16 & 1)) >> 16;
  }
  static __device__ __forceinline__ float wide(uint32_t h) {
    return ts_wide_bf16((uint16_t)h);
  }
};

struct ts_code_f16 {
  static __device__ __forceinline__ uint32_t narrow(float f) {
    const uint32_t u = __float_as_uint(f);
    if ((u & 0x7fffffffu) > 0x7f800000u) return (u >> 16 & 0x8000u) | 0x7e00u;
    return __half_as_ushort(__float2half_rn(f));
  }
  static __device__ __forceinline__ float wide(uint32_t h) {
    return ts_wide_f16((uint16_t)h);
  }
};

/* Vectors of V elements: as coded and as floats. */
template <class Code, int V> struct ts_code_vector;
template <class Code> struct ts_code_vector<Code, 1> {
  typedef unsigned short coded;
  typedef float plain;
  static __device__ __forceinline__ coded narrow(plain x) {
    return (unsigned short)Code::narrow(x);
  }
  static __device__ __forceinline__ plain wide(coded h) {
    return Code::wide(h);
  }
};
template <class Code> struct ts_code_vector<Code, 4> {
  typedef uint2 coded;
  typedef float4 plain;
  static __device__ __forceinline__ coded narrow(plain x) {
    return make_uint2(Code::narrow(x.x) | Code::narrow(x.y) << 16,
                      Code::narrow(x.z) | Code::narrow(x.w) << 16);
  }
  static __device__ __forceinline__ plain wide(coded h) {
    return make_float4(Code::wide(h.x & 0xffffu), Code::wide(h.x >> 16),
                       Code::wide(h.y & 0xffffu), Code::wide(h.y >> 16));
  }
};
