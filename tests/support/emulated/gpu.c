/* gpu.c - the GPU that the runtime says is there, its errors, and the driver's
 * calls. */
#include <cuda_runtime_api.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/emulated/runtime.h"

#define lock ts_emulated_lock
#define counts ts_emulated_counted

/* An H200. */
#define WHOLE                                                                  \
  {                                                                            \
    .n_sms = 132, .grid_max = INT32_MAX, .shared_bytes = 232448,               \
    .capability = 90, .n_gpus = 8                                              \
  }
static const ts_emulated_gpu h200 = WHOLE;
ts_emulated_gpu ts_gpu = WHOLE;
static uint64_t order; /* of launches; see start */
static int fill = 0x5a;
static pthread_mutex_t complaint_lock = PTHREAD_MUTEX_INITIALIZER;

/* How cuda/ knows it, once it does: emulated_backend.cc. */
void ts_gpu_tell(const ts_emulated_gpu *);

void ts_emulated_set_gpu(const ts_emulated_gpu *asked) {
  ts_emulated_gpu g = asked ? *asked : h200;
  if (!g.n_sms) g.n_sms = h200.n_sms;
  if (!g.grid_max) g.grid_max = h200.grid_max;
  if (!g.shared_bytes) g.shared_bytes = h200.shared_bytes;
  if (!g.capability) g.capability = h200.capability;
  if (!g.n_gpus) g.n_gpus = h200.n_gpus;
  pthread_mutex_lock(&lock);
  ts_gpu = g;
  pthread_mutex_unlock(&lock);
  ts_gpu_tell(&g);
}

void ts_emulated_set_order(uint64_t seed) {
  __atomic_store_n(&order, seed, __ATOMIC_RELAXED);
}

uint64_t ts_emulated_seed(void) {
  const char *asked = getenv("TESSERA_EMULATED_SEED");
  return asked ? strtoull(asked, NULL, 10) : 1;
}

__attribute__((constructor)) static void start(void) {
  order = ts_emulated_seed();
}

/* Each launch has one of its own. */
uint64_t ts_order_seed(void) {
  static uint64_t n;
  const uint64_t seed = __atomic_load_n(&order, __ATOMIC_RELAXED);
  const uint64_t k = __atomic_add_fetch(&n, 1, __ATOMIC_RELAXED);
  return seed ? (seed ^ k * UINT64_C(0x9E3779B97F4A7C15)) | 1 : 0;
}

void ts_emulated_set_fill(int byte) {
  __atomic_store_n(&fill, byte, __ATOMIC_RELAXED);
}

int ts_fill_byte(void) {
  return __atomic_load_n(&fill, __ATOMIC_RELAXED);
}

ts_emulated_counts ts_emulated_now(void) {
  pthread_mutex_lock(&lock);
  pthread_mutex_lock(&complaint_lock);
  const ts_emulated_counts now = counts;
  pthread_mutex_unlock(&complaint_lock);
  pthread_mutex_unlock(&lock);
  return now;
}

/* ---- complaints ---------------------------------------------------------- */

/* Tests ask for complaints; a program that has none of them ends with the
 * first, as a GPU would have ended it. */
extern const char *ts_test_backend(void) __attribute__((weak));

void ts_complain(const char *format, ...) {
  char text[sizeof counts.complaint];
  va_list args;
  va_start(args, format);
  (void)vsnprintf(text, sizeof text, format, args);
  va_end(args);
  pthread_mutex_lock(&complaint_lock);
  if (!counts.complaints++) memcpy(counts.complaint, text, sizeof text);
  pthread_mutex_unlock(&complaint_lock);
  (void)fprintf(stderr, "the emulated GPU: %s\n", text);
  if (!ts_test_backend) _exit(EXIT_FAILURE);
}

void ts_emulated_forgive(void) {
  pthread_mutex_lock(&complaint_lock);
  counts.complaints = 0;
  counts.complaint[0] = '\0';
  pthread_mutex_unlock(&complaint_lock);
  ts_emulated_heal();
}

const char *cudaGetErrorString(cudaError_t e) {
  static _Thread_local char text[sizeof counts.complaint];
  if (e != cudaErrorIllegalAddress)
    return e == cudaErrorMemoryAllocation ? "no memory" : "an error";
  pthread_mutex_lock(&complaint_lock);
  memcpy(text, counts.complaint, sizeof text);
  pthread_mutex_unlock(&complaint_lock);
  return *text ? text : "a fault of the device";
}

const char *cudaGetErrorName(cudaError_t e) {
  return e == cudaErrorIllegalAddress ? "cudaErrorIllegalAddress" : "cudaError";
}

/* ---- the GPU ------------------------------------------------------------- */

cudaError_t cudaGetDeviceCount(int *n) {
  const char *asked = getenv("TESSERA_FAKE_GPUS");
  *n = asked ? atoi(asked) : ts_gpu.n_gpus;
  return ts_answer(*n > 0 ? cudaSuccess : cudaErrorNoDevice);
}

cudaError_t cudaSetDevice(int device) {
  counts.device = device;
  return ts_answer(cudaSuccess);
}

cudaError_t cudaGetDevice(int *device) {
  *device = counts.device;
  return ts_answer(cudaSuccess);
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *p, int device) {
  memset(p, 0, sizeof *p);
  strcpy(p->name, "an emulated GPU");
  p->uuid.bytes[0] = (char)device;
  return ts_answer(cudaSuccess);
}

cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr which,
                                   int device) {
  (void)device;
  switch (which) {
  case cudaDevAttrComputeCapabilityMajor:
    *value = ts_gpu.capability / 10;
    break;
  case cudaDevAttrComputeCapabilityMinor:
    *value = ts_gpu.capability % 10;
    break;
  case cudaDevAttrMultiProcessorCount:
    *value = ts_gpu.n_sms;
    break;
  case cudaDevAttrMaxGridDimX:
    *value = ts_gpu.grid_max;
    break;
  case cudaDevAttrMaxSharedMemoryPerBlockOptin:
    *value = ts_gpu.shared_bytes;
    break;
  case cudaDevAttrMemoryPoolsSupported:
    *value = !ts_gpu.no_pools;
    break;
  case cudaDevAttrPageableMemoryAccess:
    *value = ts_gpu.reads_pages;
    break;
  }
  return ts_answer(cudaSuccess);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *low, int *high) {
  *low = 0;
  *high = -5;
  return ts_answer(cudaSuccess);
}

cudaError_t cudaDriverGetVersion(int *version) {
  *version = CUDART_VERSION;
  return ts_answer(cudaSuccess);
}

cudaError_t cudaRuntimeGetVersion(int *version) {
  *version = CUDART_VERSION;
  return ts_answer(cudaSuccess);
}
