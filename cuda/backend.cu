/* backend.cu - the CUDA backend: device memory, streams as lanes, events.
 *
 * A lane is a stream; a task runs in the thread that submits it and launches
 * on the lane's stream.  An event is the CUDA event that was recorded when it
 * was taken: a ring per lane, whose slots are told apart by their numbers. */
#include <cuda_runtime.h>
#include <string.h>

extern "C" {
#include "base/mem.h"
#include "runtime/backends.h"
#include "runtime/device_impl.h"
}

enum { EVENTS = 256 }; /* of a lane that can be waited for at once */

struct ts_cuda_lane {
  struct ts_lane base;
  cudaStream_t stream;
  cudaEvent_t events[EVENTS];
  uint64_t n_recorded;
  ts_err fault;
};

static ts_cuda_lane *cuda(ts_lane *lane) {
  return (ts_cuda_lane *)lane;
}

static ts_err check(cudaError_t e, const char *call) {
  if (e == cudaSuccess) return TS_OK;
  return ts_fail(e == cudaErrorMemoryAllocation ? TS_ERR_NOMEM
                                                : TS_ERR_INTERNAL,
                 "CUDA: %.60s: %s", call, cudaGetErrorString(e));
}
#define CUDA(call) check((call), #call)

static void destroy(ts_device *d) {
  ts_mem_free(d);
}

static ts_err device_alloc(ts_device *, void **p, size_t bytes,
                           ts_space space, ts_tag tag) {
  ts_err err;
  *p = NULL;
  if (!bytes) return TS_OK;
  if (space == TS_SPACE_HOST) return ts_mem_alloc(p, bytes, tag);
  if (space == TS_SPACE_PINNED) {
    err = CUDA(cudaHostAlloc(p, bytes, cudaHostAllocDefault));
    if (err == TS_OK) memset(*p, 0, bytes);
  } else {
    err = CUDA(cudaMalloc(p, bytes));
    if (err == TS_OK) err = CUDA(cudaMemset(*p, 0, bytes));
  }
  if (err == TS_OK) ts_mem_count(tag, space, (int64_t)bytes);
  return err;
}

static void device_free(ts_device *, void *p, size_t bytes, ts_space space,
                        ts_tag tag) {
  if (!p) return;
  if (space == TS_SPACE_HOST) {
    ts_mem_free(p);
    return;
  }
  if (space == TS_SPACE_PINNED)
    (void)cudaFreeHost(p);
  else
    (void)cudaFree(p);
  ts_mem_count(tag, space, -(int64_t)bytes);
}

static void lane_destroy(ts_lane *lane) {
  ts_cuda_lane *l = cuda(lane);
  if (l->stream) (void)cudaStreamSynchronize(l->stream);
  for (int i = 0; i < EVENTS; i++)
    if (l->events[i]) (void)cudaEventDestroy(l->events[i]);
  if (l->stream) (void)cudaStreamDestroy(l->stream);
  ts_mem_free(l);
}

static ts_err lane_create(ts_device *d, ts_lane **out, const char *name,
                          ts_lane_kind kind) {
  ts_cuda_lane *l = NULL;
  int low = 0, high = 0;
  ts_err err = ts_mem_alloc(&l, sizeof *l, TS_TAG_MISC);
  if (err != TS_OK) return err;
  l->base.device = d;
  l->base.name = name;
  l->base.kind = kind;
  err = CUDA(cudaDeviceGetStreamPriorityRange(&low, &high));
  if (err == TS_OK)
    err = CUDA(cudaStreamCreateWithPriority(
        &l->stream, cudaStreamNonBlocking,
        kind == TS_LANE_COMPUTE ? low : high));
  for (int i = 0; i < EVENTS && err == TS_OK; i++)
    err = CUDA(cudaEventCreateWithFlags(&l->events[i],
                                        cudaEventDisableTiming));
  if (err != TS_OK) {
    lane_destroy(&l->base);
    return err;
  }
  *out = &l->base;
  return TS_OK;
}

static ts_err keep(ts_cuda_lane *l, ts_err err) {
  if (err != TS_OK && l->fault == TS_OK) l->fault = err;
  return err;
}

static ts_err submit(ts_lane *lane, const char *, ts_task task,
                     const void *arg, size_t arg_bytes) {
  ts_cuda_lane *l = cuda(lane);
  alignas(16) char copy[TS_TASK_ARG_MAX];
  if (l->fault != TS_OK) return l->fault;
  if (arg_bytes) memcpy(copy, arg, arg_bytes);
  return keep(l, task(copy, lane));
}

static ts_event record(ts_lane *lane) {
  ts_cuda_lane *l = cuda(lane);
  ts_event event = {lane, ++l->n_recorded};
  (void)keep(l, CUDA(cudaEventRecord(l->events[event.seq % EVENTS],
                                     l->stream)));
  return event;
}

/* The CUDA event of EVENT, or NULL when its slot has been taken by a later
 * one: then a wait for that one is a wait for this one, too. */
static cudaEvent_t event_of(ts_event event) {
  return cuda(event.lane)->events[event.seq % EVENTS];
}

static ts_err wait_event(ts_lane *lane, ts_event event) {
  ts_cuda_lane *l = cuda(lane);
  return keep(l, CUDA(cudaStreamWaitEvent(l->stream, event_of(event), 0)));
}

static ts_err sync_event(ts_event event) {
  ts_cuda_lane *l = cuda(event.lane);
  ts_err err = CUDA(cudaEventSynchronize(event_of(event)));
  return keep(l, err) != TS_OK ? err : l->fault;
}

static bool done(ts_event event) {
  return cudaEventQuery(event_of(event)) != cudaErrorNotReady;
}

static ts_err copy(ts_lane *lane, void *dst, const void *src, size_t bytes) {
  ts_cuda_lane *l = cuda(lane);
  return keep(l, CUDA(cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDefault,
                                      l->stream)));
}

static ts_err device_create(ts_device **out, const ts_device_options *o) {
  static ts_device_ops ops;
  int n = 0;
  if (cudaGetDeviceCount(&n) != cudaSuccess || n < 1) {
    (void)cudaGetLastError();
    return ts_fail(TS_ERR_DECK, "run.backend \"cuda\": no CUDA device is "
                                "visible here (driver, or "
                                "CUDA_VISIBLE_DEVICES)");
  }
  ops.name = "cuda";
  ops.destroy = destroy;
  ops.alloc = device_alloc;
  ops.free = device_free;
  ops.lane_create = lane_create;
  ops.lane_destroy = lane_destroy;
  ops.submit = submit;
  ops.record = record;
  ops.wait = wait_event;
  ops.sync = sync_event;
  ops.done = done;
  ops.copy = copy;
  ts_device *d = NULL;
  ts_err err = ts_mem_alloc(&d, sizeof *d, TS_TAG_MISC);
  if (err != TS_OK) return err;
  d->ops = &ops;
  d->options = *o;
  *out = d;
  return TS_OK;
}

/* The table stays empty for now: ts_kernels_fill names what is missing. */
static ts_err kernels_fill(ts_kernels *k, const char *) {
  k->isa = "cuda";
  return TS_OK;
}

extern "C" {
extern const ts_backend ts_backend_cuda;
const ts_backend ts_backend_cuda = {"cuda", device_create, kernels_fill};
}
