/* cuda.h - as much of CUDA's driver as cuda/ calls. */
#pragma once

#include <cuda_runtime_api.h>

typedef enum CUresult {
  CUDA_SUCCESS = 0,
  CUDA_ERROR_INVALID_VALUE = 1
} CUresult;
typedef cudaStream_t CUstream;
typedef unsigned long long CUdeviceptr;
typedef uint64_t cuuint64_t;
typedef int CUdevice;
typedef enum CUdevice_attribute {
  CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS = 122
} CUdevice_attribute;
enum { CU_STREAM_WAIT_VALUE_GEQ = 0 };
