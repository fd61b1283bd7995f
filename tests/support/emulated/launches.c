/* launches.c - kernels that are known by their addresses, and launches of them:
 * each is looked at as the GPU would (gpu.c) and is a piece of work of its
 * stream, so graphs have it as a node. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/emulated/runtime.h"
#include "tests/support/emulated/simt.h"

/* One multiprocessor of an H200, and what a block of it may have. */
enum {
  THREADS = 2048,
  BLOCK_THREADS = 1024,
  BLOCKS = 32,
  REGISTERS = 65536,
  REGISTERS_UNIT = 256, /* a warp's are a multiple */
  SHARED_BLOCK = 49152, /* without a request */
  SHARED_OWN = 1024,    /* that the system takes of each block's */
  PARAMS = 32764,
  ALIGN = 64 /* of each parameter here */
};

enum { BUCKETS = 1024 };
static ts_kernel *bucket[BUCKETS]; /* never freed; new ones come first */
static pthread_mutex_t kernels_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- kernels ------------------------------------------------------------- */

static ts_kernel **bucket_of(const void *address) {
  const uint64_t h =
      (uint64_t)(uintptr_t)address * UINT64_C(0x9E3779B97F4A7C15);
  return &bucket[h >> 54];
}

static ts_kernel *find(const void *address) {
  ts_kernel *k = __atomic_load_n(bucket_of(address), __ATOMIC_ACQUIRE);
  while (k && k->address != address) k = k->next;
  return k;
}

/* The bytes of no operation in front of a kernel (__launch_bounds__), and up to
 * 15 that align it. */
static int bounds_of(const void *address) {
#if defined(__x86_64__)
  const unsigned char *at = address;
  int n = 0;
  while (n < 2048 && at[-1 - n] == 0x90) n++;
  return n / 32 * 32;
#else
  (void)address;
  return 0;
#endif
}

void ts_emulated_know(const void *address, ts_emulated_call *call,
                      const size_t *sizes, int n) {
  if (find(address)) return;
  ts_kernel *k = calloc(1, sizeof *k);
  if (!k) abort();
  *k = (ts_kernel){.address = address, .call = call, .sizes = sizes, .n = n};
  k->most_threads = bounds_of(address);
  ts_name_of(k->name, sizeof k->name, address);
  ts_limits_of(k);
  pthread_mutex_lock(&kernels_lock);
  k->next = *bucket_of(address);
  if (!find(address)) __atomic_store_n(bucket_of(address), k, __ATOMIC_RELEASE);
  pthread_mutex_unlock(&kernels_lock);
}

int64_t ts_emulated_launches(const char *name) {
  int64_t n = 0;
  for (int i = 0; i < BUCKETS; i++)
    for (ts_kernel *k = __atomic_load_n(&bucket[i], __ATOMIC_ACQUIRE); k;
         k = k->next)
      if (!name || strstr(k->name, name))
        n += __atomic_load_n(&k->launches, __ATOMIC_RELAXED);
  return n;
}

/* ---- what is asked of a kernel ------------------------------------------- */

static size_t most_threads(const ts_kernel *k) {
  return k->most_threads ? (size_t)k->most_threads : BLOCK_THREADS;
}

cudaError_t ts_emulated_set_attribute(const void *kernel,
                                      cudaFuncAttribute which, int value) {
  ts_kernel *k = find(kernel);
  if (which != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0 ||
      (size_t)value + k->shared > (size_t)ts_gpu.shared_bytes)
    return ts_answer(cudaErrorInvalidValue);
  k->raised = (size_t)value;
  return ts_answer(cudaSuccess);
}

static size_t round_up(size_t n, size_t unit) {
  return (n + unit - 1) / unit * unit;
}

static size_t registers_of(const ts_kernel *k, size_t threads) {
  return (threads + 31) / 32 *
         round_up((size_t)k->registers * 32, REGISTERS_UNIT);
}

cudaError_t ts_emulated_occupancy(int *n, const void *kernel, int block,
                                  size_t shared) {
  const ts_kernel *k = find(kernel);
  *n = 0;
  if (block < 1) return ts_answer(cudaErrorInvalidValue);
  if ((size_t)block > most_threads(k)) return ts_answer(cudaSuccess);
  const size_t threads = round_up((size_t)block, 32);
  const size_t registers = registers_of(k, threads);
  const size_t bytes = shared + k->shared + SHARED_OWN;
  const size_t all = (size_t)ts_gpu.shared_bytes + SHARED_OWN;
  size_t most = THREADS / threads;
  if (most > BLOCKS) most = BLOCKS;
  if (registers && most > REGISTERS / registers) most = REGISTERS / registers;
  if (most > all / bytes) most = all / bytes;
  *n = (int)most;
  return ts_answer(cudaSuccess);
}

/* ---- launches ------------------------------------------------------------ */

static bool sizes_go(const ts_launch *l) {
  const dim3 g = l->grid, b = l->block;
  return g.x >= 1 && g.x <= 2147483647 && g.y >= 1 && g.y <= 65535 &&
         g.z >= 1 && g.z <= 65535 && b.x >= 1 && b.x <= 1024 && b.y >= 1 &&
         b.y <= 1024 && b.z >= 1 && b.z <= 64 &&
         b.x * b.y * b.z <= BLOCK_THREADS;
}

/* As the compiler lays parameters out: each on a border of its own size, 16
 * bytes at most. */
static size_t params_of(const ts_kernel *k) {
  size_t bytes = 0;
  for (int i = 0; i < k->n; i++) {
    const size_t size = k->sizes[i], low = size & -size;
    bytes = round_up(bytes, low < 16 ? low : 16) + size;
  }
  return bytes;
}

/* As CUDA answers. */
static cudaError_t check(const ts_launch *l) {
  const ts_kernel *k = l->kernel;
  const size_t threads = (size_t)l->block.x * l->block.y * l->block.z;
  const size_t most = k->raised ? k->raised + k->shared : (size_t)SHARED_BLOCK;
  if (!sizes_go(l)) return cudaErrorInvalidConfiguration;
  if (l->shared + k->shared > most) return cudaErrorInvalidValue;
  if (threads > most_threads(k) || registers_of(k, threads) > REGISTERS)
    return cudaErrorLaunchOutOfResources;
  return params_of(k) > PARAMS ? cudaErrorInvalidValue : cudaSuccess;
}

static ts_launch *make(size_t bytes) {
  const size_t all = round_up(sizeof(ts_launch) + bytes, ALIGN);
  ts_launch *l = aligned_alloc(ALIGN, all);
  if (!l) abort();
  memset(l, 0, all);
  l->bytes = bytes;
  l->users = 1;
  return l;
}

void ts_launch_drop(ts_launch *l) {
  if (!__atomic_sub_fetch(&l->users, 1, __ATOMIC_ACQ_REL)) free(l);
}

ts_work ts_launch_of(const cudaKernelNodeParams *p, cudaError_t *e) {
  ts_kernel *k = find(p->func);
  size_t at = 0;
  if (!k) {
    *e = ts_answer(cudaErrorInvalidDeviceFunction);
    return (ts_work){.kind = LAUNCH};
  }
  for (int i = 0; i < k->n; i++) at += round_up(k->sizes[i], ALIGN);
  ts_launch *l = make(at);
  l->kernel = k;
  l->grid = p->gridDim;
  l->block = p->blockDim;
  l->shared = p->sharedMemBytes;
  at = 0;
  for (int i = 0; i < k->n; i++) {
    memcpy(l->params + at, p->kernelParams[i], k->sizes[i]);
    at += round_up(k->sizes[i], ALIGN);
  }
  *e = check(l);
  if (*e != cudaSuccess)
    ts_complain("error %d of %s: grid %u %u %u, block %u %u %u, %zu bytes",
                (int)*e, k->name, l->grid.x, l->grid.y, l->grid.z, l->block.x,
                l->block.y, l->block.z, l->shared);
  (void)__atomic_add_fetch(&k->launches, 1, __ATOMIC_RELAXED);
  return (ts_work){.kind = LAUNCH, .launch = l};
}

cudaError_t cudaLaunchKernel(const void *kernel, dim3 grid, dim3 block,
                             void **value, size_t shared, cudaStream_t s) {
  const cudaKernelNodeParams p = {.func = (void *)(uintptr_t)kernel,
                                  .gridDim = grid,
                                  .blockDim = block,
                                  .sharedMemBytes = (unsigned)shared,
                                  .kernelParams = value};
  cudaError_t e;
  const ts_work w = ts_launch_of(&p, &e);
  pthread_mutex_lock(&ts_emulated_lock);
  ts_emulated_counted.launches++;
  pthread_mutex_unlock(&ts_emulated_lock);
  if (e == cudaSuccess) return ts_enqueue(s, w);
  ts_work_end(&w);
  return ts_answer(e);
}

void ts_emulated_enqueue(cudaStream_t s, void (*run)(void *), const void *arg,
                         size_t bytes) {
  ts_launch *l = make(bytes);
  l->run = run;
  memcpy(l->params, arg, bytes);
  (void)ts_enqueue(s, (ts_work){.kind = LAUNCH, .launch = l});
}

enum { PARAMETERS = 64 };

void ts_launch_run(const ts_launch *l) {
  char message[1200];
  void *value[PARAMETERS];
  size_t at = 0;
  unsigned char *params = (unsigned char *)(uintptr_t)l->params;
  if (!l->kernel) {
    l->run(params);
    return;
  }
  for (int i = 0; i < l->kernel->n; i++) {
    value[i] = params + at;
    at += round_up(l->kernel->sizes[i], ALIGN);
  }
  const ts_simt_launch run = {.call = l->kernel->call,
                              .kernel = l->kernel->address,
                              .value = value,
                              .grid = l->grid,
                              .block = l->block,
                              .shared_bytes = l->shared,
                              .seed = ts_order_seed()};
  if (ts_simt_run(&run, message, sizeof message)) return;
  ts_complain("%s: %s", l->kernel->name, message);
  ts_device_fails();
}
