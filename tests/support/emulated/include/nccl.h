/* nccl.h - as much of NCCL as cuda/runtime/comm_nccl.cu calls: nccl.c. */
#pragma once

#include <cuda_runtime_api.h>

#define NCCL_VERSION_CODE 22800

#ifdef __cplusplus
extern "C" {
#endif

typedef enum ncclResult_t {
  ncclSuccess = 0,
  ncclSystemError = 2,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7
} ncclResult_t;
typedef enum ncclDataType_t {
  ncclInt8 = 0,
  ncclInt64 = 4,
  ncclFloat16 = 6,
  ncclFloat32 = 7,
  ncclFloat64 = 8,
  ncclBfloat16 = 9
} ncclDataType_t;
typedef enum ncclRedOp_t { ncclSum = 0, ncclMax = 2, ncclMin = 3 } ncclRedOp_t;
typedef struct ncclComm *ncclComm_t;
typedef struct ncclUniqueId {
  char internal[128];
} ncclUniqueId;
typedef struct ncclConfig_t {
  int blocking;
} ncclConfig_t;
#define NCCL_CONFIG_INITIALIZER                                                \
  { 1 }

ncclResult_t ncclGetVersion(int *version);
const char *ncclGetErrorString(ncclResult_t);
const char *ncclGetLastError(ncclComm_t);
ncclResult_t ncclGetUniqueId(ncclUniqueId *);
ncclResult_t ncclCommInitRankConfig(ncclComm_t *, int size, ncclUniqueId,
                                    int rank, ncclConfig_t *);
ncclResult_t ncclCommGetAsyncError(ncclComm_t, ncclResult_t *);
ncclResult_t ncclCommFinalize(ncclComm_t);
ncclResult_t ncclCommDestroy(ncclComm_t);
ncclResult_t ncclCommAbort(ncclComm_t);
ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);
ncclResult_t ncclSend(const void *, size_t n, ncclDataType_t, int peer,
                      ncclComm_t, cudaStream_t);
ncclResult_t ncclRecv(void *, size_t n, ncclDataType_t, int peer, ncclComm_t,
                      cudaStream_t);
ncclResult_t ncclAllGather(const void *send, void *recv, size_t n,
                           ncclDataType_t, ncclComm_t, cudaStream_t);
ncclResult_t ncclAlltoAll(const void *send, void *recv, size_t n,
                          ncclDataType_t, ncclComm_t, cudaStream_t);
ncclResult_t ncclBroadcast(const void *send, void *recv, size_t n,
                           ncclDataType_t, int root, ncclComm_t, cudaStream_t);
ncclResult_t ncclAllReduce(const void *send, void *recv, size_t n,
                           ncclDataType_t, ncclRedOp_t, ncclComm_t,
                           cudaStream_t);
ncclResult_t ncclReduceScatter(const void *send, void *recv, size_t n,
                               ncclDataType_t, ncclRedOp_t, ncclComm_t,
                               cudaStream_t);

#ifdef __cplusplus
}
#endif
