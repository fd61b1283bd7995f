/* emulate_cases.cu - small kernels for the test of the emulation, some of them
 * broken on purpose. */
#include "tests/runtime/emulate_cases.h"

#include <cuda_runtime.h>
#include <stdlib.h>

#include "tests/support/emulated/emulated.h"

/* The launch on the default stream, until it is done: the first complaint, or
 * NULL. */
template <class... P>
static const char *run(void (*kernel)(P...), dim3 grid, dim3 block,
                       size_t shared_bytes, P... value) {
  static ts_emulated_counts now;
  void *at[] = {&value...};
  ts_emulated_forgive();
  if (cudaLaunchKernel((const void *)ts_emulated_known(kernel), grid, block, at,
                       shared_bytes, NULL) == cudaSuccess)
    (void)cudaStreamSynchronize(NULL);
  now = ts_emulated_now();
  ts_emulated_forgive();
  (void)cudaGetLastError();
  return now.complaints ? now.complaint : NULL;
}

/* N of them, as zeros, where kernels and the host see them; NULL: frees. */
template <class T> static void pinned(T **p, int n) {
  void *fresh = NULL;
  if (cudaHostAlloc(&fresh, (size_t)n * sizeof(T), 0) != cudaSuccess) abort();
  memset(fresh, 0, (size_t)n * sizeof(T));
  *p = (T *)fresh;
}

__global__ static void sum(int *out, const int *in, int n) {
  __shared__ int part[8];
  TS_SHARED_DYNAMIC(int, all);
  const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
  int v = i < n ? in[i] : 0;
  all[threadIdx.x] = v;
  for (int d = 16; d; d /= 2) v += __shfl_down_sync(~0u, v, d);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
  __syncthreads();
  if (threadIdx.x) return;
  int a = 0, b = 0;
  for (int k = 0; k < 8; k++) a += part[k];
  for (int k = 0; k < 256; k++) b += all[k];
  if (a != b) __trap();
  atomicAdd(out, a);
}

const char *emulate_sum(int *out, const int *in, int n) {
  int *to, *from;
  pinned(&to, 1);
  pinned(&from, n);
  memcpy(from, in, (size_t)n * sizeof *in);
  const char *said = run(sum, dim3((unsigned)(n + 255) / 256), dim3(256),
                         256 * sizeof(int), to, (const int *)from, n);
  *out = *to;
  (void)cudaFreeHost(to);
  (void)cudaFreeHost(from);
  return said;
}

/* A wrong one keeps the first number. */
__device__ static void expect(int *wrong, int number, bool good) {
  if (!good && !*wrong) *wrong = number;
}

__global__ static void warps(int *wrong) {
  const int t = (int)threadIdx.x, lane = t % 32;
  const uint32_t full = ~0u, half = lane < 16 ? 0xffffu : 0xffff0000u;
  expect(wrong, 1, __shfl_sync(full, t, 3) == t / 32 * 32 + 3);
  expect(wrong, 2, __shfl_sync(full, t, 3, 8) == t / 8 * 8 + 3);
  expect(wrong, 3, __shfl_xor_sync(full, t, 5) == (t ^ 5));
  expect(wrong, 4, __shfl_up_sync(full, t, 2, 16) == (t % 16 < 2 ? t : t - 2));
  expect(wrong, 5,
         __shfl_down_sync(full, t, 2, 16) == (t % 16 > 13 ? t : t + 2));
  expect(wrong, 6, __shfl_sync(full, 0.5 * t, 7) == 0.5 * (t / 32 * 32 + 7));
  expect(wrong, 7, __ballot_sync(full, lane % 3 == 0) == 0x49249249);
  expect(wrong, 8, __any_sync(full, lane == 9) && !__any_sync(full, 0));
  expect(wrong, 9, __all_sync(full, 1) && !__all_sync(full, lane != 9));
  expect(wrong, 10,
         __match_any_sync(full, lane % 4) == 0x11111111u << lane % 4);
  expect(wrong, 11, __reduce_add_sync(full, lane) == 496);
  expect(wrong, 12, __reduce_min_sync(full, lane - 5) == -5);
  expect(wrong, 13, __reduce_max_sync(full, (unsigned)lane) == 31);
  /* Halves of the warp go different ways, and as often as they like. */
  for (int k = 0; k < (lane < 16 ? 2 : 5); k++)
    expect(wrong, 14, __ballot_sync(half, 1) == half);
  if (lane < 20) {
    __syncwarp(0xfffff);
    expect(wrong, 15, __ballot_sync(0xfffff, lane & 1) == 0xaaaaa);
  }
  expect(wrong, 16, __syncthreads_count(lane == 0) == 3);
  expect(wrong, 17, __syncthreads_or(t == 70) && !__syncthreads_and(t != 70));
  /* Who is done isn't waited for. */
  if (lane >= 8) return;
  expect(wrong, 18, __ballot_sync(full, 1) == 0xff);
  __syncthreads();
}

int emulate_warps(void) {
  int *wrong;
  pinned(&wrong, 1);
  const char *said = run(warps, dim3(2, 2, 1), dim3(96), 0, wrong);
  const int number = said ? 1000 : *wrong;
  (void)cudaFreeHost(wrong);
  return number;
}

__global__ static void memory(int *wrong, const float *x, unsigned *count) {
  const float4 v = __ldg((const float4 *)x + 1);
  expect(wrong, 1, v.x == 4 && v.w == 7);
  expect(wrong, 2, __half2float(__float2half_rn(0.1f)) == 0x1.998p-4f);
  expect(wrong, 3,
         __bfloat162float(__float2bfloat16_rn(3.14159f)) == 3.140625f);
  expect(wrong, 4, __popc(0xf0) == 4 && __ffs(0) == 0 && __ffs(8) == 4);
  expect(wrong, 5, __clz(0) == 32 && __clz(1) == 31 && __clzll(1) == 63);
  expect(wrong, 6, min(3, -2) == -2 && max(3u, 5u) == 5);
  expect(wrong, 7, __brev(1) == 0x80000000u);
  expect(wrong, 8, __byte_perm(0x33221100, 0x77665544, 0x7610) == 0x77661100);
  expect(wrong, 9, __umulhi(0x80000000u, 6) == 3);
  expect(wrong, 10, __funnelshift_l(0x80000000u, 1, 1) == 3);
  expect(wrong, 11, __float_as_uint(1) == 0x3f800000);
  atomicAdd(count, 1u);
  atomicMax(count + 1, threadIdx.x + threadIdx.y * blockDim.x);
}

int emulate_memory(void) {
  float *x;
  unsigned *count;
  int *wrong;
  pinned(&x, 8);
  pinned(&count, 2);
  pinned(&wrong, 1);
  for (int i = 0; i < 8; i++) x[i] = (float)i;
  const char *said =
      run(memory, dim3(3), dim3(5, 4), 0, wrong, (const float *)x, count);
  int number = said ? 1000 : *wrong;
  if (!number && (count[0] != 60 || count[1] != 19)) number = 100;
  (void)cudaFreeHost(x);
  (void)cudaFreeHost(count);
  (void)cudaFreeHost(wrong);
  return number;
}

/* ---- faults on purpose --------------------------------------------------- */

__global__ static void fault(int number, int *x) {
  const int t = (int)threadIdx.x;
  switch (number) {
  case 0: /* one operation, in two places */
    if (t % 2)
      (void)__ballot_sync(~0u, 1);
    else
      (void)__ballot_sync(~0u, 1);
    break;
  case 1: /* the same barrier twice, in the source */
    if (t & 1)
      __syncthreads();
    else
      __syncthreads();
    break;
  case 2:
    __syncwarp(t % 32 < 30 ? ~0u : 0x3fffffffu);
    break;
  case 3:
    (void)__shfl_sync(1u << t % 32, t, 3);
    break;
  case 4:
    if (t % 32 < 8) (void)__ballot_sync(~0u, 1);
    if (t % 32 >= 8) __syncthreads();
    break;
  case 5:
    (void)__ldg((const float4 *)(x + 1));
    break;
  case 6:
    *(float4 *)(x + 2) = make_float4(1, 2, 3, 4);
    break;
  default:
    __trap();
  }
}

const char *emulate_fault(int number, const char **expected) {
  static const char *const words[] = {"lanes of its mask are in another line",
                                      "others are at a barrier in another line",
                                      "the mask lacks the lane itself",
                                      "wants the value of a lane that isn't",
                                      "not all of its threads come",
                                      "__ldg: misaligned",
                                      "misaligned address",
                                      "__trap"};
  int *x;
  if (number >= (int)(sizeof words / sizeof *words)) return NULL;
  *expected = words[number];
  pinned(&x, 8);
  const char *said = run(fault, dim3(2), dim3(64), 0, number, x);
  (void)cudaFreeHost(x);
  return said ? said : "nothing";
}

/* ---- orders and races ---------------------------------------------------- */

__global__ static void note_order(unsigned *count, unsigned *block,
                                  unsigned *warp) {
  if (threadIdx.x % 32) return;
  const unsigned at = atomicAdd(count, 1u);
  block[at] = blockIdx.x;
  warp[at] = threadIdx.x / 32;
}

int emulate_order(unsigned block[32], unsigned warp[32]) {
  unsigned *x;
  pinned(&x, 65);
  const char *said = run(note_order, dim3(8), dim3(128), 0, x, x + 1, x + 33);
  memcpy(block, x + 1, 32 * sizeof *x);
  memcpy(warp, x + 33, 32 * sizeof *x);
  const int n = said ? -1 : (int)*x;
  (void)cudaFreeHost(x);
  return n;
}

/* Each thread reads what another one has written, of its block or its warp.
 * A kernel for each BY: the thread sanitizer tells of a place once. */
template <int by> __global__ void pass_on(int *out, bool wait) {
  __shared__ int x[64];
  const int t = (int)threadIdx.x;
  x[t] = 1000 + t;
  if (wait && by < 32) __syncwarp();
  if (wait && by >= 32) __syncthreads();
  out[t] = x[t ^ by] - (t ^ by);
  if (by < 32) __syncwarp();
  if (by >= 32) __syncthreads();
  x[t] = 0;
}

template <int by> static int race(bool wait) {
  int *out, wrong = 0;
  pinned(&out, 64);
  for (uint64_t seed = 1; seed <= 8; seed++) {
    ts_emulated_set_order(seed);
    if (run(pass_on<by>, dim3(1), dim3(64), 0, out, wait)) wrong = 1000;
    for (int i = 0; i < 64; i++) wrong += out[i] != 1000;
  }
  ts_emulated_set_order(ts_emulated_seed());
  (void)cudaFreeHost(out);
  return wrong;
}

int emulate_race(int k, bool wait) {
  static int (*const with[])(bool) = {race<1>, race<16>, race<32>, race<33>};
  return with[k](wait);
}

/* ---- launches ------------------------------------------------------------ */

static __device__ void add_all(float *to, const float *from, int64_t n) {
  for (int64_t i = threadIdx.x; i < n; i += blockDim.x) to[i] += from[i];
}
__global__ static void __launch_bounds__(256) add(float *to, const float *from,
                                                  int64_t n) {
  add_all(to, from, n);
}
__global__ static void add_any(float *to, const float *from, int64_t n) {
  add_all(to, from, n);
}

int emulate_add(bool any, void *to, const void *from, unsigned block,
                size_t shared_bytes, void *stream) {
  const int64_t n = 4;
  const void *at[] = {&to, &from, &n};
  return cudaLaunchKernel(any ? (const void *)ts_emulated_known(add_any)
                              : (const void *)ts_emulated_known(add),
                          dim3(1), dim3(block), (void **)at, shared_bytes,
                          (cudaStream_t)stream);
}
