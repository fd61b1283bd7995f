/* cuda_impl.h - what the files of cuda/ share: the check of calls, the current
 * lane, scratch memory, the entries of the table of kernels.
 * Functions are Local unless they say Collective or Enqueues. */
#pragma once

#include <cuda_runtime.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda/runtime/enqueue.h"
#include "cuda/runtime/grid.h"

#ifndef _Noreturn
#define _Noreturn __attribute__((noreturn)) /* C's, in headers of src/ */
#endif

extern "C" {
#include "base/err.h"
#include "base/mem.h"
#include "runtime/device_impl.h"
#include "kernel_table.h"
#include "runtime/trace.h"
}

/* ---- calls --------------------------------------------------------------- */

/* ts_err of a CUDA call, with one message: the call and CUDA's own words.
 *   TS_TRY(TS_CUDA(cudaStreamSynchronize(stream)));
 * Out of memory is NOMEM, all else INTERNAL.  Clears what cudaGetLastError
 * would give, but for faults that the process can't get rid of. */
#define TS_CUDA(call) ts_cuda_check(__FILE__, __LINE__, (call), #call)
ts_err ts_cuda_check(const char *file, int line, cudaError_t, const char *call);

/* Whether E is success.  For callers that have no error to return: what
 * cudaGetLastError would give is cleared, or a launch would take it for its
 * own. */
static inline bool ts_cuda_ok(cudaError_t e) {
  if (e != cudaSuccess) (void)cudaGetLastError();
  return e == cudaSuccess;
}

/* ---- lanes --------------------------------------------------------------- */

/* Lanes of the device "cuda" only. */
cudaStream_t ts_cuda_stream(ts_lane *);

/* The lane whose task runs in this thread; NULL outside of tasks. */
ts_lane *ts_cuda_lane_now(void);

/* The host waits until that lane has done all that is queued on it; with the
 * deadline of all waits, which a wait inside CUDA hasn't. */
ts_err ts_cuda_settle_now(void);

/* ; lane "L", task "T" of the task that runs in this thread, or nothing. */
const char *ts_cuda_where(char buf[128]);

/* Makes this process's GPU the calling thread's: threads that CUDA has not
 * seen begin at GPU 0.  submit, wait and sync have done so; threads of one's
 * own call it first.  Cheap after the first time. */
ts_err ts_cuda_use(void);

/* Nothing is recorded in the thread's error record. */
bool ts_cuda_is_clean(void);

/* A call by who gives something back: its error is dropped, as nobody can be
 * told of it; one that was recorded before, the reason why it is given back, is
 * kept.  Local. */
#define TS_CUDA_QUIETLY(call)                                                  \
  do {                                                                         \
    const bool was_clean = ts_cuda_is_clean();                                 \
    if ((call) != TS_OK && was_clean) ts_err_clear();                          \
  } while (0)

/* The GPU: multiprocessors, blocks of a grid in x, bytes of shared memory that
 * a block may ask for (above 48 KiB by cudaFuncSetAttribute), 10 * major +
 * minor of its compute capability.  Known once a device has been created or
 * ts_cuda_use called. */
typedef struct ts_cuda_gpu {
  int ordinal, n_sms, grid_max, shared_bytes_max, capability;
  size_t bytes; /* of memory */
  char name[128];
  char id[TS_DEVICE_ID]; /* its UUID, in hexadecimal */
} ts_cuda_gpu;
const ts_cuda_gpu *ts_cuda_gpu_now(void);
/* As many blocks of THREADS threads as may run at once, for grids that go on
 * with a stride. */
static inline int64_t ts_cuda_blocks_most(int threads) {
  return (int64_t)ts_cuda_gpu_now()->n_sms * (2048 / threads);
}
/* A launch of such a grid: N pieces of work, PER_BLOCK of them in a block. */
static inline ts_cuda_shape ts_cuda_strided(int64_t n, int64_t per_block,
                                            int threads) {
  return {ts_grid(n, per_block, ts_cuda_blocks_most(threads)),
          (unsigned)threads};
}
/* As many blocks of KERNEL as run at once. */
template <class K>
static inline int64_t ts_cuda_blocks_of(K *kernel, int threads) {
  int n = 0;
  const cudaError_t e =
      cudaOccupancyMaxActiveBlocksPerMultiprocessor(&n, kernel, threads, 0);
  return (int64_t)ts_cuda_gpu_now()->n_sms * (ts_cuda_ok(e) && n > 0 ? n : 1);
}

/* ---- scratch ------------------------------------------------------------- */

/* *P (a T**) = BYTES of device memory in the order of STREAM: what is enqueued
 * on it from now on may use them, until the give; never zeroed, aligned to 256
 * bytes, NULL for 0 bytes.  give takes the same BYTES and TAG and does not
 * wait.  From a pool that keeps what it has: cheap after the first steps. */
ts_err ts_cuda_take(void *p, size_t bytes, ts_tag,
                    cudaStream_t = ts_cuda_stream_now());
void ts_cuda_give(void *p, size_t bytes, ts_tag,
                  cudaStream_t = ts_cuda_stream_now());

/* Cuts pieces out of one block of scratch; counts only while it has none. */
struct ts_cuda_pieces {
  char *block;
  size_t bytes;
  template <class T> void cut(T **p, int64_t n) {
    *p = block ? (T *)(void *)(block + bytes) : NULL;
    bytes += ((size_t)n * sizeof(T) + 255) / 256 * 256;
  }
};

/* Memory of the host that CUDA does not know: a copy from or to it is made
 * before the call returns, or waits. */
bool ts_cuda_is_pageable(const void *p);
/* Before a copy is enqueued: what is open as a graph ends where one side is
 * pageable memory, which CUDA reads or writes at once. */
ts_err ts_cuda_copy_begins(const void *dst, const void *src);

/* The host's memory as kernels see it (ts_device_reach). */
ts_err ts_cuda_reach(ts_device *, void **seen, void *p, size_t bytes, bool pin);
void ts_cuda_unreach(ts_device *, void *p);

/* cuda/runtime/device.cu; cuda/runtime/memory.cu, cuda/runtime/gpu.cu: of
 * its operations. */
ts_err ts_cuda_device_create(ts_device **, const ts_device_options *);
ts_err ts_cuda_alloc(ts_device *, void **p, size_t bytes, ts_space, ts_tag);
void ts_cuda_free(ts_device *, void *p, size_t bytes, ts_space, ts_tag);
ts_err ts_cuda_alloc_late(ts_device *, void **p, size_t bytes, ts_space,
                          ts_tag);
void ts_cuda_free_late(ts_device *, void *p, size_t bytes, ts_space, ts_tag);
/* NOMEM: the GPU has no BYTES left for TAG. */
ts_err ts_cuda_no_room(size_t bytes, ts_tag);
/* The pool gives back what nothing uses, once the stream has come to its end,
 * so that a call that found no room may find some. */
bool ts_cuda_make_room(void);
/* BYTES at P are zeros before any lane's work. */
ts_err ts_cuda_zero_fresh(void *p, size_t bytes);
ts_err ts_cuda_range_create(ts_device *, ts_range **, void **p, size_t bytes,
                            ts_tag); /* range.cu */
ts_err ts_cuda_range_give(ts_device *, ts_range *, size_t from, size_t to);
void ts_cuda_range_destroy(ts_device *, ts_range *);
bool ts_cuda_is_remote(ts_device *, const void *p);
void ts_cuda_describe(const ts_device *, ts_device_info *);
ts_err ts_cuda_identify(ts_device *, char id[TS_DEVICE_ID]);
ts_err ts_cuda_mark(ts_lane *, void **mark); /* events.cu */
ts_err ts_cuda_between(ts_lane *, void *a, void *b, double *seconds);
void ts_cuda_unmark(void *mark);

/* ---- the trace ----------------------------------------------------------- */

/* The work enqueued on LANE from begin to end is a range called NAME (static)
 * for profilers and, while the trace is on, a span with the device's times.
 * submit makes those of tasks; collectives call these themselves.  Ranges of a
 * thread lie within each other.  end completes the span WHAT, whose row, name,
 * mark and times it sets itself. */
typedef struct ts_cuda_span {
  const char *name;
  struct ts_cuda_timing *timing; /* NULL: not timed */
} ts_cuda_span;
ts_cuda_span ts_cuda_span_begin(ts_lane *, const char *name);
void ts_cuda_span_end(ts_lane *, ts_cuda_span, const ts_span *what);

/* ---- the table of kernels ------------------------------------------------ */

/* The entry NAME of the table (kernel_table.h) is ts_cuda_NAME, in the file
 * of its family.  Entries have no lane among their arguments: one runs inside a
 * task, in the thread that submits it, and launches on the stream of the lane
 * whose task that is.  It never waits for the device, unless its arguments'
 * header says so.  Whoever waits for the lane finds what failed on the device
 * later, with the names of the lane and its last span. */
#define TS_CUDA_ENTRY(name, params) ts_err ts_cuda_##name params;
TS_KERNEL_LIST(TS_CUDA_ENTRY)
#undef TS_CUDA_ENTRY

/* Matrix products: cuda/dense/products.cu. */
extern const struct ts_engine ts_cuda_products;

/* dst (n) = sum of the W arrays at SRC, STRIDE elements apart, in rank order
 * (or TS_MAX, TS_MIN): the bits of src/runtime/comm_reduce.c.  REDUCTION 0, 1,
 * 2: sum, max, min.  ONTO: DST is the first of them. */
ts_err ts_cuda_reduce_ranks(cudaStream_t, void *dst, const void *src, int w,
                            int64_t stride, int64_t n, ts_dtype, int reduction,
                            bool onto);

/* cuda/sparse/sort.cu.  Enqueues on the current lane: start = first entries of
 * the runs of equal KEYS, *N_RUNS their number, both on the device.  TEMP NULL:
 * only *TEMP_BYTES, its size, is set. */
ts_err ts_cuda_starts(void *temp, size_t *temp_bytes, const uint32_t *keys,
                      int64_t n, uint32_t *start, uint32_t *n_runs);
