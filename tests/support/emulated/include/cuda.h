/* cuda.h - as much of CUDA's driver as cuda/runtime/range.cu calls; names and
 * numbers are CUDA's. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum cudaError_enum {
  CUDA_SUCCESS = 0,
  CUDA_ERROR_INVALID_VALUE = 1,
  CUDA_ERROR_OUT_OF_MEMORY = 2
} CUresult;
typedef unsigned long long CUdeviceptr;
typedef unsigned long long CUmemGenericAllocationHandle;

typedef enum { CU_MEM_LOCATION_TYPE_DEVICE = 1 } CUmemLocationType;
typedef enum { CU_MEM_ALLOCATION_TYPE_PINNED = 1 } CUmemAllocationType;
typedef enum {
  CU_MEM_ALLOC_GRANULARITY_RECOMMENDED = 1
} CUmemAllocationGranularity_flags;
typedef enum { CU_MEM_ACCESS_FLAGS_PROT_READWRITE = 3 } CUmemAccess_flags;

typedef struct {
  CUmemLocationType type;
  int id;
} CUmemLocation;
typedef struct {
  CUmemAllocationType type;
  CUmemLocation location;
} CUmemAllocationProp;
typedef struct {
  CUmemLocation location;
  CUmemAccess_flags flags;
} CUmemAccessDesc;

CUresult cuMemGetAllocationGranularity(size_t *bytes,
                                       const CUmemAllocationProp *,
                                       CUmemAllocationGranularity_flags);
CUresult cuMemAddressReserve(CUdeviceptr *, size_t bytes, size_t alignment,
                             CUdeviceptr at, unsigned long long flags);
CUresult cuMemAddressFree(CUdeviceptr, size_t bytes);
CUresult cuMemCreate(CUmemGenericAllocationHandle *, size_t bytes,
                     const CUmemAllocationProp *, unsigned long long flags);
CUresult cuMemRelease(CUmemGenericAllocationHandle);
CUresult cuMemMap(CUdeviceptr, size_t bytes, size_t offset,
                  CUmemGenericAllocationHandle, unsigned long long flags);
CUresult cuMemUnmap(CUdeviceptr, size_t bytes);
CUresult cuMemSetAccess(CUdeviceptr, size_t bytes, const CUmemAccessDesc *,
                        size_t n);

#ifdef __cplusplus
}
#endif
