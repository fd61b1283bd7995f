/* cuda_impl.h - what the files of cuda/ share: the check of calls, the current
 * lane, launches, scratch memory.
 *
 * The entries of the table of kernels (runtime/kernels.h) have no lane among
 * their arguments: an entry runs inside a task, in the thread that submits it,
 * and launches on the stream of the lane whose task that is.  It never waits
 * for the device.  What fails there later is found by who waits for the lane,
 * and named with the lane and its last span.
 * Functions are Local unless they say Collective or Enqueues. */
#ifndef TS_CUDA_IMPL_H
#define TS_CUDA_IMPL_H

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
#include "runtime/kernels.h"
#include "runtime/trace.h"
}

/* ---- calls --------------------------------------------------------------- */

/* ts_err of a CUDA call, with one message: the call and CUDA's own words.
 *   TS_TRY(TS_CUDA(cudaStreamSynchronize(stream)));
 * Out of memory is NOMEM, all else INTERNAL.  Clears what cudaGetLastError
 * would give, but for faults that the process can't get rid of. */
#define TS_CUDA(call) ts_cuda_check(__FILE__, __LINE__, (call), #call)
ts_err ts_cuda_check(const char *file, int line, cudaError_t, const char *call);

/* A launch: every one is written so (a host emulation defines it before).  An
 * expression of type ts_err; a template's name goes in parentheses:
 *   TS_TRY(TS_CUDA_LAUNCH((pool<float, 4>), grid, block, 0, stream, a, b)); */
#ifndef TS_CUDA_LAUNCH
#define TS_CUDA_LAUNCH(kernel, grid, block, shared_bytes, stream, ...)         \
  ts_cuda_launch(ts_cuda_site{__FILE__, __LINE__, #kernel}, kernel, (grid),    \
                 (block), (shared_bytes), (stream), __VA_ARGS__)
#endif

/* ---- lanes --------------------------------------------------------------- */

/* Lanes of the device "cuda" only. */
cudaStream_t ts_cuda_stream(ts_lane *);

/* The lane whose task runs in this thread; NULL outside of tasks. */
ts_lane *ts_cuda_lane_now(void);
/* Its stream; outside of tasks the default stream (tests of kernels). */
cudaStream_t ts_cuda_stream_now(void);

/* The host waits until that lane has done all that is queued on it; with the
 * deadline of all waits, which a wait inside CUDA hasn't. */
ts_err ts_cuda_settle_now(void);

/* ; lane "L", task "T" of the task that runs in this thread, or nothing. */
const char *ts_cuda_where(char buf[128]);

/* Makes this process's GPU the calling thread's: threads that CUDA has not
 * seen begin at GPU 0.  submit, wait and sync have done so; threads of one's
 * own call it first.  Cheap after the first time. */
ts_err ts_cuda_use(void);

/* The GPU: multiprocessors, bytes of shared memory that a block may ask for
 * (above 48 KiB by cudaFuncSetAttribute), 10 * major + minor of its compute
 * capability.  Known once a device has been created or ts_cuda_use called. */
typedef struct ts_cuda_gpu {
  int ordinal, n_sms, shared_bytes_max, capability;
  size_t bytes; /* of memory */
  char name[128];
  char id[TS_DEVICE_ID]; /* its UUID, in hexadecimal */
} ts_cuda_gpu;
const ts_cuda_gpu *ts_cuda_gpu_now(void);

/* ---- scratch ------------------------------------------------------------- */

/* *P (a T**) = BYTES of device memory in the order of STREAM: what is enqueued
 * on it from now on may use them, until the give; never zeroed, aligned to 256
 * bytes, NULL for 0 bytes.  give takes the same BYTES and TAG and does not
 * wait.  From a pool that keeps what it has: cheap after the first steps. */
ts_err ts_cuda_take(void *p, size_t bytes, ts_tag, cudaStream_t stream);
void ts_cuda_give(void *p, size_t bytes, ts_tag, cudaStream_t stream);

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
bool ts_cuda_is_remote(ts_device *, const void *p);
void ts_cuda_describe(const ts_device *, ts_device_info *);
ts_err ts_cuda_identify(ts_device *, char id[TS_DEVICE_ID]);
ts_err ts_cuda_mark(ts_lane *, void **mark); /* cuda/runtime/clock.cu */
ts_err ts_cuda_between(ts_lane *, void *a, void *b, double *seconds);
void ts_cuda_unmark(void *mark);

/* ---- the trace ----------------------------------------------------------- */

/* What is enqueued on LANE from begin to end is a range called NAME (static)
 * for profilers and, while the trace is on, a span with the device's times.
 * Tasks have theirs from submit; these are for what is enqueued otherwise
 * (collectives).  Ranges of a thread lie within each other.  end completes
 * WHAT, whose row, name, mark and times it sets itself. */
typedef struct ts_cuda_span {
  const char *name;
  struct ts_cuda_timing *timing; /* NULL: not timed */
} ts_cuda_span;
ts_cuda_span ts_cuda_span_begin(ts_lane *, const char *name);
void ts_cuda_span_end(ts_lane *, ts_cuda_span, const ts_span *what);

/* ---- the table of kernels ------------------------------------------------ */

/* One function for each family, called by cuda/runtime/backend.cu once it
 * exists; each
 * sets the entries that its files implement. */
void ts_cuda_kernels_memory(ts_kernels *);   /* zero, copy, fetch */
void ts_cuda_kernels_views(ts_kernels *);    /* shard/view_kernels.h's, put */
void ts_cuda_kernels_lookup(ts_kernels *);   /* lookup, weight_grad */
void ts_cuda_kernels_pack(ts_kernels *);     /* bags_*, pack_* */
void ts_cuda_kernels_update(ts_kernels *);   /* sort, row_update, row_stage */
void ts_cuda_kernels_cache(ts_kernels *);    /* cache_* */
void ts_cuda_kernels_entries(ts_kernels *);  /* sparse/entries.h */
void ts_cuda_kernels_unpack(ts_kernels *);   /* unpack, bag_means */
void ts_cuda_kernels_products(ts_kernels *); /* engine */
void ts_cuda_kernels_loss(ts_kernels *);     /* bce, tally */
void ts_cuda_kernels_interact(ts_kernels *); /* interact_* */
void ts_cuda_kernels_cross(ts_kernels *);    /* cross_*, fm_*, join, split */
void ts_cuda_kernels_flat(ts_kernels *);     /* flat arrays, dense_update */

#endif
