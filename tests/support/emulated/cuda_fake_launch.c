/* cuda_fake_launch.c - launches of the fake CUDA runtime, of what nvcc
 * compiles and CUB asks: each is looked at as an H200 would and is a piece of
 * work of its stream, so graphs have it as a node. */
#include "tests/support/emulated/cuda_fake_launch.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/emulated/cuda_fake_body.h"
#include "tests/support/emulated/cuda_fake_impl.h"
#include "tests/support/emulated/cuda_fake_params.h"

/* One multiprocessor of an H200, and what a block of it may have. */
enum {
  N_SMS = 132,
  THREADS = 2048,
  BLOCK_THREADS = 1024,
  BLOCKS = 32,
  REGISTERS = 65536,
  REGISTERS_UNIT = 256, /* a warp's are a multiple */
  SHARED = 233472,
  SHARED_OPTIN = 232448, /* of a block, with a request */
  SHARED_BLOCK = 49152,
  SHARED_OWN = 1024, /* that the system takes of each block's */
  PARAMS = 32764
};

typedef struct ts_kernel {
  const void *host; /* its stub: what programs call it by */
  const char *name;
  ts_fake_image image;
  const ts_fake_body *body; /* NULL: it does nothing */
  bool looked_for;
  size_t raised; /* bytes of shared memory that were asked for */
} ts_kernel;

enum { KERNELS = 4096 };
static ts_kernel kernel[KERNELS];
static int n_kernels;
static ts_fake_launch *noted; /* all, newest first; under the lock */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of counts */
static ts_cuda_fake_launches counts;

/* ---- what is wrong ------------------------------------------------------- */

void ts_fake_complain(const char *format, ...) {
  char text[sizeof counts.first];
  va_list args;
  va_start(args, format);
  (void)vsnprintf(text, sizeof text, format, args);
  va_end(args);
  pthread_mutex_lock(&lock);
  if (!counts.n_wrong++) memcpy(counts.first, text, sizeof text);
  pthread_mutex_unlock(&lock);
  (void)fprintf(stderr, "the fake CUDA runtime: %s\n", text);
}

static void count(int64_t *n) {
  pthread_mutex_lock(&lock);
  ++*n;
  pthread_mutex_unlock(&lock);
}

void ts_fake_pageable(void) {
  count(&counts.n_pageable);
}

ts_cuda_fake_launches ts_cuda_fake_launched(void) {
  pthread_mutex_lock(&lock);
  const ts_cuda_fake_launches now = counts;
  pthread_mutex_unlock(&lock);
  return now;
}

void ts_cuda_fake_forget(void) {
  pthread_mutex_lock(&ts_fake_lock);
  while (noted) {
    ts_fake_launch *l = noted;
    noted = l->older;
    free(l);
  }
  pthread_mutex_unlock(&ts_fake_lock);
  pthread_mutex_lock(&lock);
  memset(&counts, 0, sizeof counts);
  pthread_mutex_unlock(&lock);
}

/* ---- what the compiler registers, before main ---------------------------- */

void **__cudaRegisterFatBinary(void *fat);
void __cudaRegisterFatBinaryEnd(void **fat);
void __cudaUnregisterFatBinary(void **fat);
void __cudaRegisterVar(void **fat, char *host, char *at, const char *name,
                       int ext, size_t size, int constant, int global);
void __cudaRegisterFunction(void **fat, const char *host, char *at,
                            const char *name, int limit, void *tid, void *bid,
                            void *block, void *grid, int *wsize);

void **__cudaRegisterFatBinary(void *fat) {
  return fat;
}

void __cudaRegisterFatBinaryEnd(void **fat) {
  (void)fat;
}

void __cudaUnregisterFatBinary(void **fat) {
  (void)fat;
}

void __cudaRegisterVar(void **fat, char *host, char *at, const char *name,
                       int ext, size_t size, int constant, int global) {
  (void)fat, (void)host, (void)at, (void)name;
  (void)ext, (void)size, (void)constant, (void)global;
}

void __cudaRegisterFunction(void **fat, const char *host, char *at,
                            const char *name, int limit, void *tid, void *bid,
                            void *block, void *grid, int *wsize) {
  (void)at, (void)limit, (void)tid, (void)bid, (void)block, (void)grid;
  (void)wsize;
  if (n_kernels == KERNELS) abort();
  ts_kernel *k = &kernel[n_kernels++];
  k->host = host;
  k->name = name;
  ts_fake_image_read(&k->image, fat, name);
}

static ts_kernel *find(const void *func) {
  for (int i = 0; i < n_kernels; i++)
    if (kernel[i].host == func) return &kernel[i];
  return NULL;
}

bool ts_cuda_fake_knows_kernels(void) {
  bool all = n_kernels > 0;
  for (int i = 0; i < n_kernels; i++) all &= kernel[i].image.known;
  return all;
}

const void *ts_cuda_fake_kernel_named(const char *name) {
  for (int i = 0; i < n_kernels; i++)
    if (strstr(kernel[i].name, name)) return kernel[i].host;
  return NULL;
}

/* ---- what is asked of a kernel ------------------------------------------- */

static int most_threads(const ts_kernel *k) {
  return k->image.most_threads ? k->image.most_threads : BLOCK_THREADS;
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *a,
                                  const void *func) {
  const ts_kernel *k = find(func);
  memset(a, 0, sizeof *a);
  if (!k) return ts_fake_answer(cudaErrorInvalidDeviceFunction);
  a->binaryVersion = a->ptxVersion = 90;
  a->maxThreadsPerBlock = most_threads(k);
  a->numRegs = k->image.registers;
  a->sharedSizeBytes = k->image.shared;
  a->maxDynamicSharedSizeBytes =
      (int)(k->raised ? k->raised : SHARED_BLOCK - k->image.shared);
  return ts_fake_answer(cudaSuccess);
}

cudaError_t cudaFuncSetAttribute(const void *func, enum cudaFuncAttribute which,
                                 int value) {
  ts_kernel *k = find(func);
  if (!k) return ts_fake_answer(cudaErrorInvalidDeviceFunction);
  if (which != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0 ||
      (size_t)value + k->image.shared > SHARED_OPTIN)
    return ts_fake_answer(cudaErrorInvalidValue);
  k->raised = (size_t)value;
  return ts_fake_answer(cudaSuccess);
}

static size_t round_up(size_t n, size_t unit) {
  return (n + unit - 1) / unit * unit;
}

static size_t registers_of(const ts_kernel *k, size_t threads) {
  return (threads + 31) / 32 *
         round_up((size_t)k->image.registers * 32, REGISTERS_UNIT);
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int *n, const void *func, int block, size_t shared, unsigned flags) {
  const ts_kernel *k = find(func);
  *n = 0;
  if (!k) return ts_fake_answer(cudaErrorInvalidDeviceFunction);
  if (block < 1 || flags) return ts_fake_answer(cudaErrorInvalidValue);
  if (block > most_threads(k)) return ts_fake_answer(cudaSuccess);
  const size_t threads = round_up((size_t)block, 32);
  const size_t registers = registers_of(k, threads);
  const size_t bytes = shared + k->image.shared + SHARED_OWN;
  size_t most = THREADS / threads;
  if (most > BLOCKS) most = BLOCKS;
  if (registers && most > REGISTERS / registers) most = REGISTERS / registers;
  if (most > SHARED / bytes) most = SHARED / bytes;
  *n = (int)most;
  return ts_fake_answer(cudaSuccess);
}

int ts_fake_attribute(enum cudaDeviceAttr which) {
  switch ((int)which) {
  case cudaDevAttrComputeCapabilityMajor:
    return 9;
  case cudaDevAttrComputeCapabilityMinor:
    return 0;
  case cudaDevAttrMultiProcessorCount:
    return N_SMS;
  case cudaDevAttrMaxSharedMemoryPerBlockOptin:
    return SHARED_OPTIN;
  case cudaDevAttrMaxSharedMemoryPerBlock:
    return SHARED_BLOCK;
  case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
    return SHARED;
  case cudaDevAttrReservedSharedMemoryPerBlock:
    return SHARED_OWN;
  case cudaDevAttrWarpSize:
    return 32;
  case cudaDevAttrMaxThreadsPerBlock:
    return BLOCK_THREADS;
  case cudaDevAttrMaxThreadsPerMultiProcessor:
    return THREADS;
  case cudaDevAttrMaxGridDimX:
    return 2147483647;
  case cudaDevAttrMaxGridDimY:
  case cudaDevAttrMaxGridDimZ:
    return 65535;
  case cudaDevAttrMemoryPoolsSupported:
  case cudaDevAttrHostRegisterSupported:
  case cudaDevAttrCanUseHostPointerForRegisteredMem:
    return 1;
  case cudaDevAttrPageableMemoryAccess:
    return 0;
  default:
    ts_fake_complain("attribute %d of the GPU is asked for", (int)which);
    return 0;
  }
}

/* ---- launches ------------------------------------------------------------ */

static bool sizes_go(const ts_fake_launch *l) {
  const dim3 g = l->grid, b = l->block;
  return g.x >= 1 && g.x <= 2147483647 && g.y >= 1 && g.y <= 65535 &&
         g.z >= 1 && g.z <= 65535 && b.x >= 1 && b.x <= 1024 && b.y >= 1 &&
         b.y <= 1024 && b.z >= 1 && b.z <= 64 &&
         b.x * b.y * b.z <= BLOCK_THREADS;
}

/* As CUDA answers. */
static cudaError_t check(const ts_kernel *k, const ts_fake_launch *l) {
  const size_t threads = (size_t)l->block.x * l->block.y * l->block.z;
  const size_t most =
      k->raised ? k->raised + k->image.shared : (size_t)SHARED_BLOCK;
  if (!sizes_go(l)) return cudaErrorInvalidConfiguration;
  if (l->shared + k->image.shared > most) return cudaErrorInvalidValue;
  if (threads > (size_t)most_threads(k) || registers_of(k, threads) > REGISTERS)
    return cudaErrorLaunchOutOfResources;
  if (k->image.param_bytes > PARAMS) return cudaErrorInvalidValue;
  return cudaSuccess;
}

ts_work ts_fake_launch_of(const struct cudaKernelNodeParams *p,
                          cudaError_t *e) {
  const ts_kernel *k = find(p->func);
  const size_t bytes = k ? k->image.param_bytes : 0;
  ts_fake_launch *l = calloc(1, sizeof *l + bytes);
  if (!l) abort();
  l->func = p->func;
  l->name = k ? k->name : "a stranger";
  l->grid = p->gridDim;
  l->block = p->blockDim;
  l->shared = p->sharedMemBytes;
  l->bytes = bytes;
  for (int i = 0; k && i < k->image.n_params; i++)
    memcpy(l->params + k->image.param[i].at, p->kernelParams[i],
           k->image.param[i].bytes);
  if (bytes) ts_fake_params_clear(l->name, l->params, bytes);
  *e = k ? check(k, l) : cudaErrorInvalidDeviceFunction;
  if (*e != cudaSuccess)
    ts_fake_complain("error %d of %s: grid %u %u %u, block %u %u %u, %zu bytes",
                     (int)*e, l->name, l->grid.x, l->grid.y, l->grid.z,
                     l->block.x, l->block.y, l->block.z, l->shared);
  pthread_mutex_lock(&ts_fake_lock);
  l->older = noted;
  noted = l;
  pthread_mutex_unlock(&ts_fake_lock);
  count(&counts.n);
  return (ts_work){.kind = LAUNCH, .launch = l};
}

/* ---- what kernels do ----------------------------------------------------- */

static const ts_fake_body *body_of(ts_kernel *k) {
  if (!k->looked_for) k->body = ts_fake_body_of(k->name);
  if (!k->looked_for && !k->body)
    ts_fake_complain("nobody knows what %s does", k->name);
  k->looked_for = true;
  return k->body;
}

/* One at a time. */
void ts_fake_launch_run(const ts_work *w) {
  const ts_fake_launch *l = w->launch;
  static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;
  void *param[PARAMETERS];
  const dim3 g = l->grid, b = l->block;
  const ts_fake_call call = {.grid = {g.x, g.y, g.z},
                             .block = {b.x, b.y, b.z},
                             .shared = l->shared,
                             .param = param};
  ts_kernel *k = find(l->func);
  for (int i = 0; i < k->image.n_params; i++)
    param[i] = (void *)(uintptr_t)(l->params + k->image.param[i].at);
  pthread_mutex_lock(&one);
  const ts_fake_body *body = body_of(k);
  if (body) body->run(&call);
  pthread_mutex_unlock(&one);
}

/* ---- <<<>>> -------------------------------------------------------------- */

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared,
                                     cudaStream_t s);
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared,
                                       void *s);
cudaError_t __cudaGetKernel(cudaKernel_t *out, const void *func);
cudaError_t __cudaLaunchKernel(cudaKernel_t k, dim3 grid, dim3 block,
                               void **args, size_t shared, cudaStream_t s);

static _Thread_local struct {
  dim3 grid, block;
  size_t shared;
  cudaStream_t stream;
} pushed;

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared,
                                     cudaStream_t s) {
  pushed.grid = grid;
  pushed.block = block;
  pushed.shared = shared;
  pushed.stream = s;
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared,
                                       void *s) {
  *grid = pushed.grid;
  *block = pushed.block;
  *shared = pushed.shared;
  memcpy(s, &pushed.stream, sizeof pushed.stream);
  return cudaSuccess;
}

cudaError_t __cudaGetKernel(cudaKernel_t *out, const void *func) {
  *out = (cudaKernel_t)(uintptr_t)func;
  return cudaSuccess;
}

cudaError_t __cudaLaunchKernel(cudaKernel_t k, dim3 grid, dim3 block,
                               void **args, size_t shared, cudaStream_t s) {
  return cudaLaunchKernel((const void *)k, grid, block, args, shared, s);
}
