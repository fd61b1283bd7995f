/* memory.cu - the GPU's memory and page-locked memory, counted by tag.
 *
 * Memory that is sized before lanes run is cudaMalloc's.  Buffers that grow
 * later, and the scratch of kernels, come from a pool in the order of a stream:
 * neither taking nor giving waits for the device, as cudaMalloc and cudaFree
 * may. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "cuda/runtime/graph.h"

/* Bytes that the pool keeps when nothing uses them: scratch of a step that
 * comes again. */
static const uint64_t POOL_KEEPS = UINT64_C(1) << 30;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static cudaMemPool_t the_pool;
static cudaStream_t the_stream; /* zeroes; gives and takes of buffers */
static bool started;            /* under lock */

/* ---- the pool ------------------------------------------------------------ */

static ts_err start_pool(void) {
  ts_err err = TS_OK;
  cudaMemPoolProps props;
  cudaMemPool_t pool = NULL;
  uint64_t keeps = POOL_KEEPS;
  int no = 0;
  memset(&props, 0, sizeof props);
  props.allocType = cudaMemAllocationTypePinned;
  props.handleTypes = cudaMemHandleTypeNone;
  props.location.type = cudaMemLocationTypeDevice;
  props.location.id = ts_cuda_gpu_now()->ordinal;
  TS_TRY(TS_CUDA(cudaMemPoolCreate(&pool, &props)));
  TS_TRY(TS_CUDA(
      cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keeps)));
  /* Or a lane that takes would be made to wait for the one that gave. */
  TS_TRY(TS_CUDA(cudaMemPoolSetAttribute(
      pool, cudaMemPoolReuseAllowInternalDependencies, &no)));
  TS_TRY(
      TS_CUDA(cudaStreamCreateWithFlags(&the_stream, cudaStreamNonBlocking)));
  the_pool = pool;
  pool = NULL;
  started = true;
done:
  if (pool) (void)cudaMemPoolDestroy(pool);
  return err;
}

/* The pool is the process's: devices come and go (tests), the GPU stays. */
static ts_err ready(void) {
  ts_err err = ts_cuda_use();
  if (err != TS_OK) return err;
  pthread_mutex_lock(&lock);
  if (!started) err = start_pool();
  pthread_mutex_unlock(&lock);
  return err;
}

/* ---- messages ------------------------------------------------------------ */

ts_err ts_cuda_no_room(size_t bytes, ts_tag tag) {
  size_t free_bytes = 0, total = 0;
  (void)ts_cuda_ok(cudaMemGetInfo(&free_bytes, &total));
  return ts_fail(TS_ERR_NOMEM,
                 "out of GPU memory: %zu bytes for %s; %zu of the %zu bytes of "
                 "GPU %d (%s) are free, %lld are this rank's",
                 bytes, ts_tag_text(tag), free_bytes, total,
                 ts_cuda_gpu_now()->ordinal, ts_cuda_gpu_now()->name,
                 (long long)ts_mem_total(TS_SPACE_DEVICE).now_bytes);
}

static ts_err no_pinned_room(size_t bytes, ts_tag tag) {
  return ts_fail(TS_ERR_NOMEM,
                 "out of page-locked memory: %zu bytes for %s; this rank has "
                 "%lld",
                 bytes, ts_tag_text(tag),
                 (long long)ts_mem_total(TS_SPACE_PINNED).now_bytes);
}

/* ---- taking -------------------------------------------------------------- */

bool ts_cuda_make_room(void) {
  return cudaStreamSynchronize(the_stream) == cudaSuccess &&
         cudaMemPoolTrimTo(the_pool, 0) == cudaSuccess;
}

/* A call that finds no room is made once more then. */
static bool make_room(cudaError_t e) {
  if (e != cudaErrorMemoryAllocation) return false;
  (void)cudaGetLastError();
  return ts_cuda_make_room();
}

template <class Call>
static ts_err take_by(Call call, const char *name, size_t bytes, ts_tag tag) {
  cudaError_t e = call();
  if (make_room(e)) e = call();
  if (e != cudaErrorMemoryAllocation)
    return ts_cuda_check(__FILE__, __LINE__, e, name);
  (void)cudaGetLastError();
  return ts_cuda_no_room(bytes, tag);
}

static ts_err take(void **p, size_t bytes, ts_tag tag) {
  return take_by([&] { return cudaMalloc(p, bytes); }, "cudaMalloc", bytes,
                 tag);
}

static ts_err take_late(void **p, size_t bytes, ts_tag tag, cudaStream_t s) {
  return take_by([&] { return cudaMallocFromPoolAsync(p, bytes, the_pool, s); },
                 "cudaMallocFromPoolAsync", bytes, tag);
}

static ts_err take_pinned(void **p, size_t bytes, ts_tag tag) {
  const cudaError_t e = cudaHostAlloc(p, bytes, cudaHostAllocPortable);
  if (e == cudaSuccess) memset(*p, 0, bytes);
  if (e != cudaErrorMemoryAllocation)
    return ts_cuda_check(__FILE__, __LINE__, e, "cudaHostAlloc");
  (void)cudaGetLastError();
  return no_pinned_room(bytes, tag);
}

/* Lanes don't wait for THE_STREAM: the host does, so that whatever they do
 * comes after the zeroes. */
static ts_err zero(void *p, size_t bytes) {
  TS_DO(TS_CUDA(cudaMemsetAsync(p, 0, bytes, the_stream)));
  return TS_CUDA(cudaStreamSynchronize(the_stream));
}

ts_err ts_cuda_zero_fresh(void *p, size_t bytes) {
  TS_DO(ready());
  return zero(p, bytes);
}

static ts_err alloc(void **p, size_t bytes, ts_space space, ts_tag tag,
                    bool late) {
  ts_err err = TS_OK;
  *p = NULL;
  if (!bytes) return TS_OK;
  if (space == TS_SPACE_HOST) return ts_mem_alloc(p, bytes, tag);
  TS_TRY(ready());
  if (space == TS_SPACE_PINNED)
    TS_TRY(take_pinned(p, bytes, tag));
  else if (late)
    TS_TRY(take_late(p, bytes, tag, the_stream));
  else
    TS_TRY(take(p, bytes, tag));
  ts_mem_count(tag, space, (int64_t)bytes);
  if (space == TS_SPACE_DEVICE) err = zero(*p, bytes);
  if (err == TS_OK) return TS_OK;
  (late ? ts_cuda_free_late : ts_cuda_free)(NULL, *p, bytes, space, tag);
done:
  *p = NULL;
  return err;
}

ts_err ts_cuda_alloc(ts_device *, void **p, size_t bytes, ts_space space,
                     ts_tag tag) {
  return alloc(p, bytes, space, tag, false);
}

ts_err ts_cuda_alloc_late(ts_device *, void **p, size_t bytes, ts_space space,
                          ts_tag tag) {
  return alloc(p, bytes, space, tag, true);
}

/* ---- giving -------------------------------------------------------------- */

/* Memory that a task gives back because it has grown may be in use by kernels
 * of the task before, and the pool would lend it to another stream. */
static void wait_for_lane(void) {
  if (ts_cuda_lane_now()) TS_CUDA_QUIETLY(ts_cuda_settle_now());
}

/* Nothing can be done about an error here; whoever waits for a lane finds a
 * fault of the device. */
static void give(void *p, size_t bytes, ts_space space, ts_tag tag, bool late) {
  if (!p) return;
  if (space == TS_SPACE_HOST) {
    ts_mem_free(p);
    return;
  }
  TS_CUDA_QUIETLY(ts_cuda_use());
  /* Work that is only noted down may use it; its lane keeps an error. */
  TS_CUDA_QUIETLY(ts_graph_cut("memory is given back"));
  if (late) wait_for_lane();
  (void)ts_cuda_ok(space == TS_SPACE_PINNED ? cudaFreeHost(p)
                   : late                   ? cudaFreeAsync(p, the_stream)
                                            : cudaFree(p));
  ts_mem_count(tag, space, -(int64_t)bytes);
}

void ts_cuda_free(ts_device *, void *p, size_t bytes, ts_space space,
                  ts_tag tag) {
  give(p, bytes, space, tag, false);
}

void ts_cuda_free_late(ts_device *, void *p, size_t bytes, ts_space space,
                       ts_tag tag) {
  give(p, bytes, space, tag, true);
}

/* Memory that CUDA doesn't know is the host's. */
static cudaMemoryType type_of(const void *p) {
  cudaPointerAttributes a;
  return ts_cuda_ok(cudaPointerGetAttributes(&a, p))
             ? a.type
             : cudaMemoryTypeUnregistered;
}

bool ts_cuda_is_remote(ts_device *, const void *p) {
  return p && ts_cuda_use() == TS_OK && type_of(p) == cudaMemoryTypeDevice;
}

bool ts_cuda_is_pageable(const void *p) {
  return type_of(p) == cudaMemoryTypeUnregistered;
}

/* ---- scratch ------------------------------------------------------------- */

ts_err ts_cuda_take(void *p, size_t bytes, ts_tag tag, cudaStream_t stream) {
  ts_err err = TS_OK;
  void *fresh = NULL;
  if (bytes && ts_cuda_graph_take(&fresh, bytes, tag, stream, &err)) goto done;
  if (bytes) {
    TS_TRY(ready());
    TS_TRY(take_late(&fresh, bytes, tag, stream));
    ts_mem_count(tag, TS_SPACE_DEVICE, (int64_t)bytes);
  }
done:
  memcpy(p, &fresh, sizeof fresh);
  return err;
}

void ts_cuda_give(void *p, size_t bytes, ts_tag tag, cudaStream_t stream) {
  if (!p || ts_cuda_graph_give(p, stream)) return;
  if (ts_cuda_graph_of(stream))
    TS_CUDA_QUIETLY(ts_graph_cut("scratch is given back"));
  (void)ts_cuda_ok(cudaFreeAsync(p, stream));
  ts_mem_count(tag, TS_SPACE_DEVICE, -(int64_t)bytes);
}
