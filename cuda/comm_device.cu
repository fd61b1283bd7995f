/* comm_device.cu - whose memory a pointer is, which GPU this is, and waits for
 * words that the host writes: what collectives ask of a device. */
#include <cuda.h>
#include <stdio.h>
#include <string.h>

#include "cuda/comm_cuda.h"

bool ts_cuda_is_remote(ts_device *, const void *p) {
  cudaPointerAttributes a;
  if (cudaPointerGetAttributes(&a, p) == cudaSuccess)
    return a.type == cudaMemoryTypeDevice;
  (void)cudaGetLastError();
  return false;
}

ts_err ts_cuda_identify(ts_device *, char id[TS_DEVICE_ID]) {
  ts_err err = ts_cuda_use();
  if (err != TS_OK) return err;
  memset(id, 0, TS_DEVICE_ID);
  return TS_CUDA(cudaDeviceGetPCIBusId(id, TS_DEVICE_ID - 1,
                                       ts_cuda_gpu_now()->ordinal));
}

typedef CUresult (*wait_value)(CUstream, CUdeviceptr, cuuint64_t, unsigned);

/* By name, so that the program starts where there is no driver. */
static ts_err find_wait(wait_value *out) {
  static wait_value found;
  void *entry = NULL;
  cudaDriverEntryPointQueryResult result;
  if (!found) {
#if CUDART_VERSION >= 12050
    ts_err err = TS_CUDA(cudaGetDriverEntryPointByVersion(
        "cuStreamWaitValue64", &entry, 12000, cudaEnableDefault, &result));
#else
    ts_err err = TS_CUDA(cudaGetDriverEntryPoint(
        "cuStreamWaitValue64", &entry, cudaEnableDefault, &result));
#endif
    if (err != TS_OK) return err;
    if (result != cudaDriverEntryPointSuccess || !entry)
      return ts_fail(TS_ERR_INTERNAL,
                     "CUDA: this driver has no cuStreamWaitValue64");
    memcpy(&found, &entry, sizeof found);
  }
  *out = found;
  return TS_OK;
}

ts_err ts_cuda_wait_word(ts_lane *lane, const uint64_t *word, uint64_t least) {
  wait_value wait = NULL;
  ts_err err = ts_cuda_use();
  if (err == TS_OK) err = find_wait(&wait);
  if (err != TS_OK) return err;
  const CUresult rc = wait(ts_cuda_stream(lane), (CUdeviceptr)word, least,
                           CU_STREAM_WAIT_VALUE_GEQ);
  return rc == CUDA_SUCCESS
             ? TS_OK
             : ts_fail(TS_ERR_INTERNAL, "CUDA: cuStreamWaitValue64: error %d",
                       (int)rc);
}
