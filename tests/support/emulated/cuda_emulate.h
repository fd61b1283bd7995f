/* cuda_emulate.h - runs CUDA kernels on the CPU, for tests.
 *
 * Kernels lie in headers (*.cuh) that are free of <<<>>> and of CUDA's own
 * headers unless __CUDACC__ is defined.  A C++17 file of the test includes
 * this header, then the kernels, and runs a grid:
 *
 *     #include "tests/support/emulated/cuda_emulate.h"
 *     #include "cuda/sparse/lookup_kernels.cuh"
 *     ts_emulate(dim3(blocks), dim3(128), shared_bytes,
 *                [&] { lookup_kernel<float, 4>(params); });
 *
 * Blocks run one after the other, from 0 on (what waits for a block with a
 * lower number gets on).  The threads of a block are fibers, switched at
 * barriers and warp operations only, by turns in ascending and in descending
 * order, so that a missing barrier shows.  These are failures, with a message
 * that names threads, files and lines: a barrier or warp operation that not
 * all of its threads reach, or that they reach in different lines; a shuffle
 * from a lane that takes no part; misaligned vectors in __ldg and its kin; a
 * __trap.  In a sanitizer build it sees what kernels do out of bounds.
 *
 *   ts_emulate(grid, block, shared_bytes, body)  prints a failure and aborts
 *   ts_emulate_try(...)       returns the message, NULL where all went well;
 *                             valid until the next run
 *
 * Shared memory: `__shared__ T x[N];` as in CUDA (static here: it keeps what
 * the last block left).  Dynamic: TS_SHARED_DYNAMIC(T, name), which nvcc reads
 * as extern __shared__ (kernels that use it define it for nvcc themselves,
 * see the end of this file); it is filled with 0xa5 for each block.
 *
 * Missing on purpose: atomics on floats, whose order nobody knows;
 * __activemask; arithmetic of halves; cooperative groups.  PTX goes under
 * #ifdef __CUDA_ARCH__, with plain C beside it. Built without exceptions, RTTI
 * and the C++ library: the C compiler links. */
#ifndef TS_TESTS_CUDA_EMULATE_H
#define TS_TESTS_CUDA_EMULATE_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* ---- the language -------------------------------------------------------- */

#define __global__ __attribute__((unused))
#define __device__
#define __host__
#define __constant__
#define __shared__ static
#define __grid_constant__
#define __launch_bounds__(...)
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __align__(n) __attribute__((aligned(n)))
#define TS_SHARED_DYNAMIC(type, name)                                          \
  type *const name = (type *)ts_emulated.shared

/* ---- vectors ------------------------------------------------------------- */

#define TS_VECTOR2(type, name, align)                                          \
  struct __align__(align) name##2 {                                            \
    type x, y;                                                                 \
  };                                                                           \
  static inline name##2 make_##name##2(type x, type y) {                       \
    return {x, y};                                                             \
  }
#define TS_VECTOR3(type, name)                                                 \
  struct name##3 {                                                             \
    type x, y, z;                                                              \
  };                                                                           \
  static inline name##3 make_##name##3(type x, type y, type z) {               \
    return {x, y, z};                                                          \
  }
#define TS_VECTOR4(type, name, align)                                          \
  struct __align__(align) name##4 {                                            \
    type x, y, z, w;                                                           \
  };                                                                           \
  static inline name##4 make_##name##4(type x, type y, type z, type w) {       \
    return {x, y, z, w};                                                       \
  }
#define TS_VECTORS(type, name, size)                                           \
  TS_VECTOR2(type, name, 2 * size)                                             \
  TS_VECTOR3(type, name)                                                       \
  TS_VECTOR4(type, name, 4 * size > 16 ? 16 : 4 * size)
TS_VECTORS(signed char, char, 1)
TS_VECTORS(unsigned char, uchar, 1)
TS_VECTORS(short, short, 2)
TS_VECTORS(unsigned short, ushort, 2)
TS_VECTORS(int, int, 4)
TS_VECTORS(unsigned, uint, 4)
TS_VECTORS(long long, longlong, 8)
TS_VECTORS(unsigned long long, ulonglong, 8)
TS_VECTORS(float, float, 4)
TS_VECTORS(double, double, 8)

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1)
      : x(a), y(b), z(c) {
  }
};

/* ---- a run --------------------------------------------------------------- */

/* What the running thread sees. */
struct ts_emulated_state {
  uint3 thread, block;
  dim3 block_dim, grid_dim;
  char *shared;
};
extern ts_emulated_state ts_emulated;
#define threadIdx (ts_emulated.thread)
#define blockIdx (ts_emulated.block)
#define blockDim (ts_emulated.block_dim)
#define gridDim (ts_emulated.grid_dim)
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
const char *ts_emulate_grid(dim3 grid, dim3 block, size_t shared_bytes,
                            void (*body)(void *), void *arg);
[[noreturn]] void ts_emulate_abort(const char *message);

template <class Body>
[[nodiscard]] const char *ts_emulate_try(dim3 grid, dim3 block,
                                         size_t shared_bytes, Body body) {
  return ts_emulate_grid(
      grid, block, shared_bytes, [](void *b) { (*(Body *)b)(); }, &body);
}
template <class Body>
void ts_emulate(dim3 grid, dim3 block, size_t shared_bytes, Body body) {
  const char *message = ts_emulate_try(grid, block, shared_bytes, body);
  if (message) ts_emulate_abort(message);
}

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
  const dim3 &n = blockDim;
  const uint3 &t = threadIdx;
  return (int)((t.x + n.x * (t.y + n.y * t.z)) % 32);
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

static inline void __threadfence() {
}
static inline void __threadfence_block() {
}
static inline void __threadfence_system() {
}
static inline void __nanosleep(unsigned) {
}
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
#define TS_STORE(name)                                                         \
  template <class T> void name(T *p, T v, TS_AT) {                             \
    if ((uintptr_t)p % sizeof(T))                                              \
      ts_emulate_fail(#name ": misaligned address", file, line);               \
    *p = v;                                                                    \
  }
TS_LOAD(__ldg)
TS_LOAD(__ldca)
TS_LOAD(__ldcg)
TS_LOAD(__ldcs)
TS_LOAD(__ldlu)
TS_LOAD(__ldcv)
TS_STORE(__stwb)
TS_STORE(__stcg)
TS_STORE(__stcs)
TS_STORE(__stwt)
#undef TS_LOAD
#undef TS_STORE

/* Threads are never interrupted, so these are plain. */
#define TS_ATOMIC(name, type, result)                                          \
  static inline type name(type *p, type v) {                                   \
    const type old = *p;                                                       \
    *p = (type)(result);                                                       \
    return old;                                                                \
  }
#define TS_ATOMICS(type)                                                       \
  TS_ATOMIC(atomicAdd, type, old + v)                                          \
  TS_ATOMIC(atomicMin, type, old < v ? old : v)                                \
  TS_ATOMIC(atomicMax, type, old > v ? old : v)                                \
  TS_ATOMIC(atomicAnd, type, old &v)                                           \
  TS_ATOMIC(atomicOr, type, old | v)                                           \
  TS_ATOMIC(atomicXor, type, old ^ v)                                          \
  TS_ATOMIC(atomicExch, type, v)                                               \
  static inline type atomicCAS(type *p, type compare, type v) {                \
    const type old = *p;                                                       \
    if (old == compare) *p = v;                                                \
    return old;                                                                \
  }
TS_ATOMICS(int)
TS_ATOMICS(unsigned)
TS_ATOMICS(unsigned long long)
TS_ATOMIC(atomicSub, int, old - v)
TS_ATOMIC(atomicSub, unsigned, old - v)
TS_ATOMIC(atomicInc, unsigned, old >= v ? 0 : old + 1)
#undef TS_ATOMICS
#undef TS_ATOMIC
float atomicAdd(float *, float) = delete; /* results would have no order */
double atomicAdd(double *, double) = delete;

#include "tests/support/emulated/cuda_emulate_math.h"

#undef TS_AT
#undef TS_VECTORS
#undef TS_VECTOR2
#undef TS_VECTOR3
#undef TS_VECTOR4
#endif
/* For nvcc, in the kernels' header:
 *   #ifdef __CUDACC__
 *   #define TS_SHARED_DYNAMIC(type, name) extern __shared__ type name[]
 *   #endif */
