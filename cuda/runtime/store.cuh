/* store.cuh - vectors of 16 bytes stored as such.  ptxas takes a plain
 * store of a vector whose elements were worked out one by one apart into
 * stores of words; one that is written down stays whole. */
#pragma once

#include "cuda/runtime/grid.h"

/* P: global memory, on a border of the vector's size. */
static __device__ __forceinline__ void ts_store(float4 *p, float4 x) {
#ifdef __CUDA_ARCH__
  asm volatile("st.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(
                   __cvta_generic_to_global(p)),
               "f"(x.x), "f"(x.y), "f"(x.z), "f"(x.w)
               : "memory");
#else
  *p = x;
#endif
}
static __device__ __forceinline__ void ts_store(uint4 *p, uint4 x) {
#ifdef __CUDA_ARCH__
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(
                   __cvta_generic_to_global(p)),
               "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w)
               : "memory");
#else
  *p = x;
#endif
}
