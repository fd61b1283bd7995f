/* ranges.c - the driver's virtual memory: addresses of the GPU that fault until
 * memory is put behind them, each once. */
#include <cuda.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/support/emulated/runtime.h"

enum { PIECE = 4096 }; /* a real GPU's are larger */

static CUresult whole(CUdeviceptr at, size_t bytes) {
  return bytes && at % PIECE == 0 && bytes % PIECE == 0
             ? CUDA_SUCCESS
             : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemGetAllocationGranularity(size_t *bytes,
                                       const CUmemAllocationProp *prop,
                                       CUmemAllocationGranularity_flags flags) {
  (void)prop, (void)flags;
  *bytes = PIECE;
  return CUDA_SUCCESS;
}

CUresult cuMemAddressReserve(CUdeviceptr *p, size_t bytes, size_t alignment,
                             CUdeviceptr at, unsigned long long flags) {
  (void)alignment, (void)flags;
  if (at || whole(0, bytes)) return CUDA_ERROR_INVALID_VALUE;
  pthread_mutex_lock(&ts_emulated_lock);
  *p = (uintptr_t)ts_memory_addresses(bytes);
  pthread_mutex_unlock(&ts_emulated_lock);
  return *p ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemAddressFree(CUdeviceptr p, size_t bytes) {
  (void)bytes;
  pthread_mutex_lock(&ts_emulated_lock);
  ts_memory_give_back((void *)(uintptr_t)p);
  pthread_mutex_unlock(&ts_emulated_lock);
  return CUDA_SUCCESS;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes,
                     const CUmemAllocationProp *prop,
                     unsigned long long flags) {
  (void)flags;
  if (whole(0, bytes) || prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
      prop->type != CU_MEM_ALLOCATION_TYPE_PINNED)
    return CUDA_ERROR_INVALID_VALUE;
  *handle = bytes;
  return CUDA_SUCCESS;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  (void)handle;
  return CUDA_SUCCESS;
}

/* Whether some of it may be touched is what mprotect knows; who maps memory
 * twice meets the pattern of SetAccess where its rows were. */
CUresult cuMemMap(CUdeviceptr at, size_t bytes, size_t offset,
                  CUmemGenericAllocationHandle handle,
                  unsigned long long flags) {
  (void)flags;
  if (whole(at, bytes) || offset || handle != bytes)
    return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

CUresult cuMemSetAccess(CUdeviceptr at, size_t bytes,
                        const CUmemAccessDesc *access, size_t n) {
  void *p = (void *)(uintptr_t)at;
  if (whole(at, bytes) || n != 1 ||
      access->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
    return CUDA_ERROR_INVALID_VALUE;
  if (mprotect(p, bytes, PROT_READ | PROT_WRITE))
    return CUDA_ERROR_OUT_OF_MEMORY;
  memset(p, ts_fill_byte(), bytes);
  return CUDA_SUCCESS;
}

/* As a driver's, it does not wait for what is under way. */
CUresult cuMemUnmap(CUdeviceptr at, size_t bytes) {
  if (whole(at, bytes)) return CUDA_ERROR_INVALID_VALUE;
  return mprotect((void *)(uintptr_t)at, bytes, PROT_NONE)
             ? CUDA_ERROR_INVALID_VALUE
             : CUDA_SUCCESS;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **call,
                                             unsigned version,
                                             unsigned long long flags,
                                             void *found) {
#define CALL(f)                                                                \
  { #f, (void *)(uintptr_t)f }
  static const struct {
    const char *name;
    void *call;
  } calls[] = {CALL(cuMemGetAllocationGranularity),
               CALL(cuMemAddressReserve),
               CALL(cuMemAddressFree),
               CALL(cuMemCreate),
               CALL(cuMemRelease),
               CALL(cuMemMap),
               CALL(cuMemUnmap),
               CALL(cuMemSetAccess)};
  (void)version, (void)flags, (void)found;
  *call = NULL;
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
    if (!strcmp(name, calls[i].name)) *call = calls[i].call;
  return ts_answer(*call ? cudaSuccess : cudaErrorInvalidValue);
}
