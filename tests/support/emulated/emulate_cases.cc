/* emulate_cases.cc - small kernels for the test of the emulation. */
#include "tests/support/emulated/emulate_cases.h"

#include "tests/support/emulated/cuda_emulate.h"

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
  *out = 0;
  return ts_emulate_try(dim3((unsigned)(n + 255) / 256), dim3(256),
                        256 * sizeof(int), [&] { sum(out, in, n); });
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
  int wrong = 0;
  ts_emulate(dim3(2, 2, 1), dim3(96), 0, [&] { warps(&wrong); });
  return wrong;
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
  alignas(16) const float x[8] = {0, 1, 2, 3, 4, 5, 6, 7};
  unsigned count[2] = {0, 0};
  int wrong = 0;
  ts_emulate(dim3(3), dim3(5, 4), 0, [&] { memory(&wrong, x, count); });
  if (!wrong && (count[0] != 60 || count[1] != 19)) wrong = 100;
  return wrong;
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
                                      "misaligned",
                                      "__trap"};
  alignas(16) int x[8] = {};
  if (number >= (int)(sizeof words / sizeof *words)) return NULL;
  *expected = words[number];
  const char *said =
      ts_emulate_try(dim3(2), dim3(64), 0, [&] { fault(number, x); });
  return said ? said : "nothing";
}
