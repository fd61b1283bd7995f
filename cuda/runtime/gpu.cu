/* gpu.cu - this process's GPU: chosen once, before anything is allocated; and
 * the check of CUDA's calls. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "cuda/runtime/lane.h"

extern "C" {
#include "config.h"
#include "cuda/runtime/choose.h"
#include "runtime/comm.h"
#include "runtime/topology.h"
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static ts_cuda_gpu gpu;
static bool chosen; /* under lock */
static thread_local bool used;

ts_err ts_cuda_check(const char *file, int line, cudaError_t e,
                     const char *call) {
  if (e == cudaSuccess) return TS_OK;
  char where[128];
  (void)cudaGetLastError();
  return ts_err_fail(file, line,
                     e == cudaErrorMemoryAllocation ? TS_ERR_NOMEM
                                                    : TS_ERR_INTERNAL,
                     "CUDA: %.80s: %s (%s)%s", call, cudaGetErrorString(e),
                     cudaGetErrorName(e), ts_cuda_where(where));
}

static ts_err count_gpus(int *n) {
  int driver = 0;
  const cudaError_t e = cudaGetDeviceCount(n);
  if (e == cudaSuccess && *n > 0) return TS_OK;
  (void)cudaGetLastError();
  if (!ts_cuda_ok(cudaDriverGetVersion(&driver)) || !driver)
    return ts_fail(TS_ERR_DECK, "run.backend \"cuda\": no CUDA device is "
                                "visible here: there is no NVIDIA driver");
  return ts_fail(TS_ERR_DECK,
                 "run.backend \"cuda\": no CUDA device is visible here: %s "
                 "(driver for CUDA %d.%d; CUDA_VISIBLE_DEVICES?)",
                 e == cudaSuccess ? "none found" : cudaGetErrorString(e),
                 driver / 1000, driver % 1000 / 10);
}

/* *VALUE of GPU number ORDINAL. */
static ts_err attribute(int *value, cudaDeviceAttr which, int ordinal) {
  return TS_CUDA(cudaDeviceGetAttribute(value, which, ordinal));
}

static ts_err read_attributes(ts_cuda_gpu *g) {
  int major = 0, minor = 0, pools = 0;
  TS_DO(attribute(&major, cudaDevAttrComputeCapabilityMajor, g->ordinal));
  TS_DO(attribute(&minor, cudaDevAttrComputeCapabilityMinor, g->ordinal));
  TS_DO(attribute(&g->n_sms, cudaDevAttrMultiProcessorCount, g->ordinal));
  TS_DO(attribute(&g->grid_max, cudaDevAttrMaxGridDimX, g->ordinal));
  TS_DO(attribute(&g->shared_bytes_max, cudaDevAttrMaxSharedMemoryPerBlockOptin,
                  g->ordinal));
  TS_DO(attribute(&pools, cudaDevAttrMemoryPoolsSupported, g->ordinal));
  g->capability = 10 * major + minor;
  if (!pools)
    return ts_fail(TS_ERR_DECK,
                   "run.backend \"cuda\": %s gives no memory in the order of a "
                   "stream (cudaDevAttrMemoryPoolsSupported is 0)",
                   g->name);
  return TS_OK;
}

static ts_err choose(ts_cuda_gpu *g) {
  int n = 0, node_rank = 0, node_size = 0;
  size_t free_bytes = 0;
  cudaDeviceProp properties;
  ts_node_place(&node_rank, &node_size);
  /* A launcher that tells nothing has started one rank, or ranks in turns. */
  if (node_rank < 0) node_rank = ts_mpi_rank();
  TS_DO(count_gpus(&n));
  g->ordinal = ts_cuda_choose(node_rank, n);
  TS_DO(TS_CUDA(cudaSetDevice(g->ordinal)));
  TS_DO(TS_CUDA(cudaGetDeviceProperties(&properties, g->ordinal)));
  (void)snprintf(g->name, sizeof g->name, "%.100s", properties.name);
  for (int i = 0; i < 16; i++)
    (void)snprintf(g->id + 2 * i, 3, "%02x",
                   (unsigned char)properties.uuid.bytes[i]);
  TS_DO(read_attributes(g));
  /* The first call that needs a context: it fails here, not in a lane. */
  return TS_CUDA(cudaMemGetInfo(&free_bytes, &g->bytes));
}

ts_err ts_cuda_use(void) {
  ts_err err = TS_OK;
  ts_cuda_gpu fresh;
  if (used) return TS_OK;
  memset(&fresh, 0, sizeof fresh);
  pthread_mutex_lock(&lock);
  if (!chosen) {
    TS_TRY(choose(&fresh));
    gpu = fresh;
    chosen = true;
  } else {
    TS_TRY(TS_CUDA(cudaSetDevice(gpu.ordinal)));
  }
  used = true;
done:
  pthread_mutex_unlock(&lock);
  return err;
}

const ts_cuda_gpu *ts_cuda_gpu_now(void) {
  return &gpu;
}

ts_err ts_cuda_identify(ts_device *, char id[TS_DEVICE_ID]) {
  memcpy(id, gpu.id, TS_DEVICE_ID);
  return TS_OK;
}

/* ---- for the log --------------------------------------------------------- */

void ts_cuda_describe(const ts_device *, ts_device_info *info) {
  int driver = 0, runtime = 0;
  memset(info, 0, sizeof *info);
  (void)ts_cuda_ok(cudaDriverGetVersion(&driver));
  (void)ts_cuda_ok(cudaRuntimeGetVersion(&runtime));
  (void)snprintf(info->text, sizeof info->text,
                 "%s, %.1f GiB, compute capability %d.%d, driver for CUDA "
                 "%d.%d, runtime %d.%d",
                 gpu.name, (double)gpu.bytes / (double)(1 << 30),
                 gpu.capability / 10, gpu.capability % 10, driver / 1000,
                 driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
  memcpy(info->id, gpu.id, sizeof info->id);
  info->bytes = (double)gpu.bytes;
  if (ts_cuda_runs_on(TS_CUDA_ARCHS, gpu.capability)) return;
  (void)snprintf(info->note, sizeof info->note,
                 "%s has compute capability %d.%d, below all that this build "
                 "is for (%s): its kernels will not run; configure with "
                 "CUDA_ARCHS=%d",
                 gpu.name, gpu.capability / 10, gpu.capability % 10,
                 TS_CUDA_ARCHS, gpu.capability);
}
