/* cache.h - the kernels of the cache of GPUs (src/sparse/cache.h).
 *
 * What the cache's struct points to is device memory; its slow rows are the
 * host's, pinned or read as they are.  All enqueue on the current lane and
 * return; the result is that of the host's entries, bit for bit. */
#ifndef TS_CUDA_CACHE_H
#define TS_CUDA_CACHE_H

#ifdef __cplusplus
extern "C" {
#endif
#include "runtime/kernels.h"
#include "sparse/cache.h"

ts_err ts_cuda_cache_rows(const ts_cache_rows_args *);
ts_err ts_cuda_cache_hold(const ts_cache_args *);
ts_err ts_cuda_cache_release(const ts_cache_args *);
ts_err ts_cuda_cache_refresh(const ts_cache_args *);
ts_err ts_cuda_cache_locate(const ts_cache_args *);
ts_err ts_cuda_cache_flush(const ts_cache_args *);
ts_err ts_cuda_cache_reload(const ts_cache_args *);
#ifdef __cplusplus
}
#endif

#endif
