/* reach.cu - the host's memory as kernels see it: page-locked and mapped, or
 * as it is, where the GPU takes pages of the host by itself
 * (cudaDevAttrPageableMemoryAccess).  Files are not page-locked: that would
 * take all of them into memory, and Linux refuses it for files on disks that
 * are written to.  No windows of them are either: a kernel asks for any row,
 * and the host, which knows none of them, would have to bring it first. */
#include "cuda/runtime/cuda_impl.h"

static ts_err reads_pages(bool *yes) {
  int value = 0;
  TS_DO(TS_CUDA(cudaDeviceGetAttribute(&value, cudaDevAttrPageableMemoryAccess,
                                       ts_cuda_gpu_now()->ordinal)));
  *yes = value != 0;
  return TS_OK;
}

static ts_err lock_pages(void **seen, void *p, size_t bytes) {
  const cudaError_t e = cudaHostRegister(
      p, bytes, cudaHostRegisterPortable | cudaHostRegisterMapped);
  if (e == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    return ts_fail(TS_ERR_NOMEM,
                   "out of page-locked memory: %zu bytes for tables", bytes);
  }
  TS_DO(ts_cuda_check(__FILE__, __LINE__, e, "cudaHostRegister"));
  return TS_CUDA(cudaHostGetDevicePointer(seen, p, 0));
}

ts_err ts_cuda_reach(ts_device *, void **seen, void *p, size_t bytes,
                     bool pin) {
  bool pages = false;
  TS_DO(ts_cuda_use());
  if (pin) return lock_pages(seen, p, bytes);
  TS_DO(reads_pages(&pages));
  if (!pages)
    return ts_fail(
        TS_ERR_DECK,
        "cache.tier: \"file\" needs a GPU that reads the host's pages by "
        "itself, which %s with this driver doesn't (nvidia-smi -q, "
        "Addressing Mode: HMM or ATS; the open kernel modules from 535 on "
        "with Linux 6.1 have it); or tier = \"host\", which takes %.1f GiB "
        "more of this rank's page-locked memory here, or more ranks",
        ts_cuda_gpu_now()->name, (double)bytes / (double)(1 << 30));
  return TS_OK;
}

void ts_cuda_unreach(ts_device *, void *p) {
  TS_CUDA_QUIETLY(ts_cuda_use());
  (void)ts_cuda_ok(cudaHostUnregister(p));
}
