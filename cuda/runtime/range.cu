/* range.cu - device memory that grows where it is: addresses are taken at once,
 * memory is put behind them piece by piece (CUDA's virtual memory management),
 * so that nobody who has an address hears of it, no kernel and no graph.
 *
 * The driver's calls are asked for by name, as nothing else of the program
 * needs its library.  A GPU without them has all memory from the start. */
#include <cuda.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>

#include "cuda/runtime/cuda_impl.h"

extern "C" {
#include "base/fault.h"
}

struct ts_range {
  CUdeviceptr at;
  size_t bytes, piece; /* pieces that memory comes in */
  ts_tag tag;
  uint8_t *there; /* (bytes / piece) which have some */
};

/* ---- the driver ---------------------------------------------------------- */

#define TS_RANGE_CALLS(X)                                                      \
  X(cuMemGetAllocationGranularity)                                             \
  X(cuMemAddressReserve)                                                       \
  X(cuMemAddressFree)                                                          \
  X(cuMemCreate)                                                               \
  X(cuMemRelease)                                                              \
  X(cuMemMap)                                                                  \
  X(cuMemUnmap)                                                                \
  X(cuMemSetAccess)

static struct {
#define TS_RANGE_CALL(name) decltype(&name) name##_;
  TS_RANGE_CALLS(TS_RANGE_CALL)
#undef TS_RANGE_CALL
  bool all;
} driver;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static bool find(const char *name, void **call) {
  enum { SINCE = 11000 };
#if CUDART_VERSION >= 12050
  const cudaError_t e = cudaGetDriverEntryPointByVersion(
      name, call, SINCE, cudaEnableDefault, NULL);
#else
  const cudaError_t e = cudaGetDriverEntryPoint(name, call, cudaEnableDefault);
#endif
  if (e != cudaSuccess) (void)cudaGetLastError();
  return e == cudaSuccess && *call;
}

static void look(void) {
  driver.all = true;
#define TS_RANGE_CALL(name)                                                    \
  driver.all = driver.all && find(#name, (void **)&driver.name##_);
  TS_RANGE_CALLS(TS_RANGE_CALL)
#undef TS_RANGE_CALL
}

static CUmemAllocationProp prop_of(void) {
  CUmemAllocationProp p;
  memset(&p, 0, sizeof p);
  p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  p.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  p.location.id = ts_cuda_gpu_now()->ordinal;
  return p;
}

/* BYTES of TAG were asked for. */
static ts_err failed(const char *call, CUresult r, size_t bytes, ts_tag tag) {
  if (r == CUDA_ERROR_OUT_OF_MEMORY) return ts_cuda_no_room(bytes, tag);
  return ts_fail(TS_ERR_INTERNAL, "%s: error %d of the GPU's driver", call,
                 (int)r);
}

/* ---- ranges -------------------------------------------------------------- */

void ts_cuda_range_destroy(ts_device *, ts_range *r) {
  if (!r) return;
  TS_CUDA_QUIETLY(ts_cuda_use());
  const size_t n = r->there ? r->bytes / r->piece : 0;
  for (size_t i = 0, end; i < n; i = end) {
    for (end = i; end < n && r->there[end];) end++;
    const size_t bytes = (end - i) * r->piece;
    if (bytes) (void)driver.cuMemUnmap_(r->at + i * r->piece, bytes);
    ts_mem_count(r->tag, TS_SPACE_DEVICE, -(int64_t)bytes);
    if (!bytes) end++;
  }
  if (r->at) (void)driver.cuMemAddressFree_(r->at, r->bytes);
  ts_mem_free(r->there);
  ts_mem_free(r);
}

/* *P NULL: the GPU has no such addresses. */
ts_err ts_cuda_range_create(ts_device *d, ts_range **out, void **p,
                            size_t bytes, ts_tag tag) {
  ts_err err = TS_OK;
  ts_range *r = NULL;
  *p = NULL;
  TS_TRY(ts_cuda_use());
  pthread_once(&once, look);
  if (!driver.all || !bytes) goto done;
  {
    const CUmemAllocationProp prop = prop_of();
    size_t piece = 0;
    if (driver.cuMemGetAllocationGranularity_(
            &piece, &prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED) ||
        !piece)
      goto done;
    TS_TRY(ts_mem_alloc(&r, sizeof *r, TS_TAG_MISC));
    r->piece = piece;
    r->bytes = (bytes + piece - 1) / piece * piece;
    r->tag = tag;
    TS_TRY(ts_mem_alloc(&r->there, r->bytes / piece, TS_TAG_MISC));
    if (driver.cuMemAddressReserve_(&r->at, r->bytes, 0, 0, 0)) {
      r->at = 0;
      goto done;
    }
  }
  *p = (void *)(uintptr_t)r->at;
  *out = r;
  r = NULL;
done:
  ts_cuda_range_destroy(d, r);
  return err;
}

/* Memory for the N pieces from FIRST on, which have none. */
static ts_err give_pieces(ts_range *r, size_t first, size_t n) {
  const CUmemAllocationProp prop = prop_of();
  const CUmemAccessDesc access = {prop.location,
                                  CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  const size_t bytes = n * r->piece;
  const CUdeviceptr at = r->at + first * r->piece;
  CUmemGenericAllocationHandle handle;
  CUresult e = CUDA_ERROR_OUT_OF_MEMORY;
  if (ts_fault("alloc")) return failed("cuMemCreate", e, bytes, r->tag);
  e = driver.cuMemCreate_(&handle, bytes, &prop, 0);
  if (e == CUDA_ERROR_OUT_OF_MEMORY && ts_cuda_make_room())
    e = driver.cuMemCreate_(&handle, bytes, &prop, 0);
  if (e) return failed("cuMemCreate", e, bytes, r->tag);
  e = driver.cuMemMap_(at, bytes, 0, handle, 0);
  (void)driver.cuMemRelease_(handle); /* it goes when it is unmapped */
  if (e) return failed("cuMemMap", e, bytes, r->tag);
  memset(r->there + first, 1, n);
  ts_mem_count(r->tag, TS_SPACE_DEVICE, (int64_t)bytes);
  e = driver.cuMemSetAccess_(at, bytes, &access, 1);
  if (e) return failed("cuMemSetAccess", e, bytes, r->tag);
  return ts_cuda_zero_fresh((void *)(uintptr_t)at, bytes);
}

ts_err ts_cuda_range_give(ts_device *, ts_range *r, size_t from, size_t to) {
  TS_DO(ts_cuda_use());
  const size_t last = (to + r->piece - 1) / r->piece;
  for (size_t i = from / r->piece, end; i < last; i = end) {
    for (end = i; end < last && !r->there[end];) end++;
    if (end > i) TS_DO(give_pieces(r, i, end - i));
    if (end == i) end++;
  }
  return TS_OK;
}
