/* cuda_runtime.h - CUDA's language for g++: what files of cuda/ include where
 * no toolkit is, so that the same sources run on the CPU.
 *
 * A block's threads are fibers of the stream's thread (simt.cc), switched at
 * barriers and warp operations only.  These end a launch with a message that
 * names threads, files and lines: a barrier or warp operation that not all of
 * its threads reach, or that they reach in different lines; a shuffle from a
 * lane that takes no part; misaligned vectors in __ldg and its kin; a __trap.
 *
 * Missing on purpose: atomics on floats, whose order nobody knows;
 * __activemask; arithmetic of halves; cooperative groups.  PTX goes under
 * #ifdef __CUDA_ARCH__, with plain C beside it.  Built without exceptions, RTTI
 * and the C++ library: the C compiler links. */
#pragma once

#include <cuda_runtime_api.h>
#include <math.h>
#include <string.h>
#include <utility>

/* ---- the language -------------------------------------------------------- */

#define __global__ __attribute__((unused))
#define __device__
#define __host__
#define __shared__ static __thread
#define __grid_constant__
/* So many bytes lie in front of the kernel: ts_emulated_know counts them. */
#define __launch_bounds__(n, ...)                                              \
  __attribute__((patchable_function_entry((n) + 0, (n) + 0)))
#define __forceinline__ inline __attribute__((always_inline))
#define __align__(n) __attribute__((aligned(n)))
#define TS_SHARED_DYNAMIC(type, name)                                          \
  type *const name = (type *)ts_emulated_shared

/* ---- vectors ------------------------------------------------------------- */

struct uint3 {
  unsigned x, y, z;
};
#define TS_VECTORS(type, name)                                                 \
  struct __align__(2 * sizeof(type)) name##2 {                                 \
    type x, y;                                                                 \
  };                                                                           \
  static inline name##2 make_##name##2(type x, type y) {                       \
    return {x, y};                                                             \
  }                                                                            \
  struct __align__(4 * sizeof(type)) name##4 {                                 \
    type x, y, z, w;                                                           \
  };                                                                           \
  static inline name##4 make_##name##4(type x, type y, type z, type w) {       \
    return {x, y, z, w};                                                       \
  }
TS_VECTORS(unsigned, uint)
TS_VECTORS(float, float)

/* ---- a run --------------------------------------------------------------- */

extern __thread uint3 threadIdx, blockIdx;
extern __thread dim3 blockDim, gridDim;
extern __thread char *ts_emulated_shared; /* the block's dynamic one */
enum { warpSize = 32 };

typedef enum ts_emulate_op {
  TS_EMULATE_NONE,
  TS_EMULATE_BARRIER, /* of the block; counts, ors and ands a predicate */
  TS_EMULATE_SYNC,    /* of a warp, like the rest */
  TS_EMULATE_SHUFFLE,
  TS_EMULATE_BALLOT,
  TS_EMULATE_MATCH,
  TS_EMULATE_ADD,
  TS_EMULATE_MIN,
  TS_EMULATE_MAX,
  TS_EMULATE_AND,
  TS_EMULATE_OR,
  TS_EMULATE_XOR
} ts_emulate_op;

/* The running thread waits until all others have come to OP, too; VALUE is
 * its part, LANE whose value it wants. */
uint64_t ts_emulate_wait(ts_emulate_op op, uint32_t mask, uint64_t value,
                         int lane, const char *file, int line);
[[noreturn]] void ts_emulate_fail(const char *what, const char *file, int line);

/* ---- barriers and warps -------------------------------------------------- */

/* Where a call stands in the kernel's source. */
#define TS_AT const char *file = __builtin_FILE(), int line = __builtin_LINE()

static inline void __syncthreads(TS_AT) {
  (void)ts_emulate_wait(TS_EMULATE_BARRIER, 0, 0, 0, file, line);
}
/* The barrier's value: how many threads are there, and how many hold. */
static inline int __syncthreads_count(int p, TS_AT) {
  return (int)(uint32_t)ts_emulate_wait(TS_EMULATE_BARRIER, 0, p != 0, 0, file,
                                        line);
}
static inline int __syncthreads_or(int p, TS_AT) {
  return __syncthreads_count(p, file, line) != 0;
}
static inline int __syncthreads_and(int p, TS_AT) {
  return __syncthreads_count(!p, file, line) == 0;
}
static inline void __syncwarp(uint32_t mask = 0xffffffff, TS_AT) {
  (void)ts_emulate_wait(TS_EMULATE_SYNC, mask, 0, 0, file, line);
}

static inline int ts_emulate_lane() {
  /* Not by references: where these are a thread's own, checks for null compare
   * what g++ 12 has kept of another address. */
  return (int)((threadIdx.x +
                blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) %
               32);
}

template <class T>
T ts_emulate_shuffle(uint32_t mask, T value, int lane, const char *file,
                     int line) {
  static_assert(sizeof(T) <= 8, "shuffles have at most 8 bytes");
  uint64_t bits = 0;
  memcpy(&bits, &value, sizeof value);
  bits = ts_emulate_wait(TS_EMULATE_SHUFFLE, mask, bits, lane, file, line);
  memcpy(&value, &bits, sizeof value);
  return value;
}
template <class T>
T __shfl_sync(uint32_t mask, T value, int src, int width = 32, TS_AT) {
  const int me = ts_emulate_lane();
  return ts_emulate_shuffle(
      mask, value, (me & ~(width - 1)) | (src & (width - 1)), file, line);
}
template <class T>
T __shfl_xor_sync(uint32_t mask, T value, int by, int width = 32, TS_AT) {
  const int me = ts_emulate_lane(), from = me ^ by;
  const bool above = (from & ~(width - 1)) > (me & ~(width - 1));
  return ts_emulate_shuffle(mask, value, above ? me : from, file, line);
}
template <class T>
T __shfl_up_sync(uint32_t mask, T value, unsigned by, int width = 32, TS_AT) {
  const int me = ts_emulate_lane(), first = me & ~(width - 1);
  const int from = me - (int)by;
  return ts_emulate_shuffle(mask, value, from < first ? me : from, file, line);
}
template <class T>
T __shfl_down_sync(uint32_t mask, T value, unsigned by, int width = 32, TS_AT) {
  const int me = ts_emulate_lane(), last = me | (width - 1);
  const int from = me + (int)by;
  return ts_emulate_shuffle(mask, value, from > last ? me : from, file, line);
}
static inline uint32_t __ballot_sync(uint32_t mask, int p, TS_AT) {
  return (uint32_t)ts_emulate_wait(TS_EMULATE_BALLOT, mask, p != 0, 0, file,
                                   line);
}
static inline int __any_sync(uint32_t mask, int p, TS_AT) {
  return __ballot_sync(mask, p, file, line) != 0;
}
static inline int __all_sync(uint32_t mask, int p, TS_AT) {
  return __ballot_sync(mask, !p, file, line) == 0;
}
template <class T> uint32_t __match_any_sync(uint32_t mask, T value, TS_AT) {
  uint64_t bits = 0;
  memcpy(&bits, &value, sizeof value);
  return (uint32_t)ts_emulate_wait(TS_EMULATE_MATCH, mask, bits, 0, file, line);
}
/* Values are sign-extended, so that int and unsigned compare as they are. */
#define TS_REDUCE(name, op)                                                    \
  static inline unsigned name(uint32_t mask, unsigned v, TS_AT) {              \
    return (unsigned)ts_emulate_wait(op, mask, v, 0, file, line);              \
  }                                                                            \
  static inline int name(uint32_t mask, int v, TS_AT) {                        \
    return (int)(uint32_t)ts_emulate_wait(op, mask, (uint64_t)(int64_t)v, 0,   \
                                          file, line);                         \
  }
TS_REDUCE(__reduce_add_sync, TS_EMULATE_ADD)
TS_REDUCE(__reduce_min_sync, TS_EMULATE_MIN)
TS_REDUCE(__reduce_max_sync, TS_EMULATE_MAX)
TS_REDUCE(__reduce_and_sync, TS_EMULATE_AND)
TS_REDUCE(__reduce_or_sync, TS_EMULATE_OR)
TS_REDUCE(__reduce_xor_sync, TS_EMULATE_XOR)
#undef TS_REDUCE

[[noreturn]] static inline void __trap(TS_AT) {
  ts_emulate_fail("__trap", file, line);
}

/* ---- memory -------------------------------------------------------------- */

#define TS_LOAD(name)                                                          \
  template <class T> T name(const T *p, TS_AT) {                               \
    if ((uintptr_t)p % sizeof(T))                                              \
      ts_emulate_fail(#name ": misaligned address", file, line);               \
    return *p;                                                                 \
  }
TS_LOAD(__ldg)
TS_LOAD(__ldcg)
#undef TS_LOAD

/* Streams run side by side, so these are the CPU's own. */
#define TS_ATOMIC(name, type, result)                                          \
  static inline type name(type *p, type v) {                                   \
    type old = __atomic_load_n(p, __ATOMIC_RELAXED);                           \
    while (!__atomic_compare_exchange_n(p, &old, (type)(result), false,        \
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED))   \
      ;                                                                        \
    return old;                                                                \
  }
#define TS_ATOMICS(type)                                                       \
  TS_ATOMIC(atomicAdd, type, old + v)                                          \
  TS_ATOMIC(atomicMin, type, old < v ? old : v)                                \
  TS_ATOMIC(atomicMax, type, old > v ? old : v)                                \
  TS_ATOMIC(atomicAnd, type, old &v)                                           \
  TS_ATOMIC(atomicOr, type, old | v)                                           \
  TS_ATOMIC(atomicExch, type, v)                                               \
  static inline type atomicCAS(type *p, type compare, type v) {                \
    (void)__atomic_compare_exchange_n(p, &compare, v, false, __ATOMIC_RELAXED, \
                                      __ATOMIC_RELAXED);                       \
    return compare;                                                            \
  }
TS_ATOMICS(int)
TS_ATOMICS(unsigned)
TS_ATOMICS(unsigned long long)
TS_ATOMIC(atomicSub, int, old - v)
TS_ATOMIC(atomicSub, unsigned, old - v)
#undef TS_ATOMICS
#undef TS_ATOMIC
float atomicAdd(float *, float) = delete; /* results would have no order */
double atomicAdd(double *, double) = delete;

#include "tests/support/emulated/include/cuda_math.h"

/* ---- launches ------------------------------------------------------------ */

/* How a kernel is called that is known by its address. */
template <class... P> struct ts_emulated_kernel {
  static inline const size_t sizes[sizeof...(P) + 1] = {sizeof(P)..., 0};
  template <size_t... I>
  static void call_with(void (*kernel)(P...), void **value,
                        std::index_sequence<I...>) {
    kernel(*(P *)value[I]...);
  }
  static void call(const void *kernel, void **value) {
    call_with((void (*)(P...))kernel, value, std::index_sequence_for<P...>());
  }
};

template <class... P>
static inline auto ts_emulated_known(void (*kernel)(P...)) -> void (*)(P...) {
  typedef ts_emulated_kernel<P...> how;
  ts_emulated_know((const void *)kernel, how::call, how::sizes, sizeof...(P));
  return kernel;
}

/* Parameters have the kernel's own types, as libraries' headers pass them. */
template <class... P>
static inline cudaError_t ts_emulated_launch(void (*kernel)(P...), dim3 grid,
                                             dim3 block, cudaStream_t stream,
                                             P... value) {
  void *at[] = {&value...};
  return cudaLaunchKernel((const void *)ts_emulated_known(kernel), grid, block,
                          at, 0, stream);
}

#define TS_CUDA_LAUNCH(kernel, ...)                                            \
  ts_cuda_launch(ts_cuda_site{__FILE__, __LINE__, #kernel},                    \
                 ts_emulated_known(kernel), __VA_ARGS__)

template <class... P>
static inline cudaError_t
cudaFuncSetAttribute(void (*kernel)(P...), cudaFuncAttribute which, int value) {
  return ts_emulated_set_attribute((const void *)ts_emulated_known(kernel),
                                   which, value);
}
template <class... P>
static inline cudaError_t
cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *n, void (*kernel)(P...),
                                              int block, size_t shared_bytes) {
  return ts_emulated_occupancy(n, (const void *)ts_emulated_known(kernel),
                               block, shared_bytes);
}

#undef TS_AT
#undef TS_VECTORS
