/* device.cu - the GPU as a device: a lane is a stream, an event a CUDA event.
 *
 * A task runs in the thread that submits it and launches on the lane's stream.
 *
 * Faults of the device come up in whatever call is the next; they are kept as
 * the fault of the lane that met them, with the name of its last task. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "cuda/runtime/graph.h"
#include "cuda/runtime/lane.h"

static thread_local ts_lane *lane_now;

static ts_cuda_lane *cuda(ts_lane *lane) {
  return ts_cuda_lane_of(lane);
}

cudaStream_t ts_cuda_stream(ts_lane *lane) {
  return cuda(lane)->stream;
}

ts_lane *ts_cuda_lane_now(void) {
  return lane_now;
}

const char *ts_cuda_where(char buf[128]) {
  *buf = '\0';
  if (lane_now)
    (void)snprintf(buf, 128, "; lane \"%.40s\", task \"%.40s\"", lane_now->name,
                   cuda(lane_now)->span);
  return buf;
}

cudaStream_t ts_cuda_stream_now(void) {
  return lane_now ? cuda(lane_now)->stream : NULL;
}

/* ---- errors -------------------------------------------------------------- */

ts_err ts_cuda_lane_fault(ts_cuda_lane *l) {
  pthread_mutex_lock(&l->lock);
  const ts_err err = l->fault.code;
  if (err != TS_OK) ts_err_put(&l->fault);
  pthread_mutex_unlock(&l->lock);
  return err;
}

ts_err ts_cuda_lane_keep(ts_cuda_lane *l, ts_err err) {
  ts_err_record fresh;
  if (err == TS_OK) return TS_OK;
  ts_err_take(&fresh);
  if (fresh.code == TS_OK) fresh.code = err;
  pthread_mutex_lock(&l->lock);
  if (l->fault.code == TS_OK) l->fault = fresh;
  pthread_mutex_unlock(&l->lock);
  return ts_cuda_lane_fault(l);
}

bool ts_cuda_is_clean(void) {
  return !*ts_err_message();
}

void ts_cuda_lane_keep_quietly(ts_cuda_lane *l, ts_err err, bool was_clean) {
  if (ts_cuda_lane_keep(l, err) != TS_OK && was_clean) ts_err_clear();
}

/* The device's own faults are found late: what was done then is a guess, but
 * the lane and its last task are known.  Under lock. */
ts_err ts_cuda_device_fault(const ts_cuda_lane *l, cudaError_t e) {
  (void)cudaGetLastError();
  return ts_fail(e == cudaErrorMemoryAllocation ? TS_ERR_NOMEM
                                                : TS_ERR_INTERNAL,
                 "CUDA: lane \"%s\", last task \"%s\": %s (%s); run.lanes = "
                 "\"serial\" finds the task that is to blame",
                 l->base.name, l->span ? l->span : "none",
                 cudaGetErrorString(e), cudaGetErrorName(e));
}

/* ---- tasks --------------------------------------------------------------- */

/* Serial lanes: each submission is done when submit returns. */
static ts_err settle(ts_cuda_lane *l) {
  const ts_event event = ts_cuda_event_record(&l->base);
  return ts_cuda_event_sync(event);
}

ts_err ts_cuda_settle_now(void) {
  return lane_now ? settle(cuda(lane_now)) : TS_CUDA(cudaStreamSynchronize(0));
}

static ts_err run(ts_cuda_lane *l, const char *span, ts_task task, void *arg) {
  ts_lane *before = lane_now;
  ts_span what;
  memset(&what, 0, sizeof what);
  what.kind = l->base.kind == TS_LANE_COMPUTE ? TS_SPAN_COMPUTE : TS_SPAN_DATA;
  pthread_mutex_lock(&l->lock);
  l->span = span;
  pthread_mutex_unlock(&l->lock);
  const ts_cuda_span range = ts_cuda_span_begin(&l->base, span);
  lane_now = &l->base;
  const ts_err err = task(arg, &l->base);
  lane_now = before;
  ts_cuda_span_end(&l->base, range, &what);
  return err;
}

static ts_err submit(ts_lane *lane, const char *span, ts_task task,
                     const void *arg, size_t arg_bytes) {
  ts_cuda_lane *l = cuda(lane);
  ts_err err = TS_OK;
  alignas(16) char copy[TS_TASK_ARG_MAX];
  TS_TRY(ts_cuda_lane_fault(l));
  TS_TRY(ts_cuda_use());
  if (arg_bytes) memcpy(copy, arg, arg_bytes);
  TS_TRY(run(l, span, task, copy));
  if (l->base.device->options.serial) TS_TRY(settle(l));
done:
  return ts_cuda_lane_keep(l, err);
}

typedef struct copy_args {
  void *dst;
  const void *src;
  size_t bytes;
} copy_args;

static ts_err copy_task(void *arg, ts_lane *lane) {
  const copy_args *c = (copy_args *)arg;
  TS_DO(ts_cuda_copy_begins(c->dst, c->src));
  return ts_cuda_move(c->dst, c->src, c->bytes, ts_cuda_stream(lane));
}

static ts_err copy(ts_lane *lane, const char *span, void *dst, const void *src,
                   size_t bytes) {
  copy_args c = {dst, src, bytes};
  if (!bytes) return ts_cuda_lane_fault(cuda(lane));
  return submit(lane, span, copy_task, &c, sizeof c);
}

/* ---- lanes --------------------------------------------------------------- */

static void lane_destroy(ts_lane *lane) {
  ts_cuda_lane *l = cuda(lane);
  if (l->stream) {
    /* Work that doesn't end is left to the end of the process. */
    TS_CUDA_QUIETLY(ts_cuda_event_sync(ts_cuda_event_record(lane)));
    ts_cuda_spans_drop(l);
    ts_cuda_graph_give_all(lane);
    ts_event_ring_reset(&l->ring);
    (void)ts_cuda_ok(cudaStreamDestroy(l->stream));
  }
  pthread_mutex_destroy(&l->lock);
  ts_mem_free(l);
}

/* Computing has the lowest priority: what feeds it and what others wait for
 * goes first. */
static ts_err stream_create(cudaStream_t *stream, ts_lane_kind kind) {
  int low = 0, high = 0;
  TS_DO(TS_CUDA(cudaDeviceGetStreamPriorityRange(&low, &high)));
  return TS_CUDA(cudaStreamCreateWithPriority(
      stream, cudaStreamNonBlocking, kind == TS_LANE_COMPUTE ? low : high));
}

static ts_err lane_create(ts_device *d, ts_lane **out, const char *name,
                          ts_lane_kind kind) {
  ts_err err = TS_OK;
  ts_cuda_lane *l = NULL;
  TS_TRY(ts_mem_alloc(&l, sizeof *l, TS_TAG_MISC));
  l->base.device = d;
  l->base.name = name;
  l->base.kind = kind;
  l->base.row = -1;
  pthread_mutex_init(&l->lock, NULL);
  ts_event_ring_start(&l->ring, &ts_cuda_event_calls, l);
  TS_TRY(ts_cuda_use());
  TS_TRY(stream_create(&l->stream, kind));
  ts_cuda_name_stream(l->stream, name);
  *out = &l->base;
  l = NULL;
done:
  if (l) lane_destroy(&l->base);
  return err;
}

/* ---- the device ---------------------------------------------------------- */

static void destroy(ts_device *d) {
  ts_cuda_spans_end();
  ts_mem_free(d);
}

static ts_err lane_error(ts_lane *lane) {
  return ts_cuda_lane_fault(cuda(lane));
}

static ts_err enter(ts_device *) {
  return ts_cuda_use();
}

static void fill(ts_device_ops *ops) {
  ops->name = "cuda";
  ops->destroy = destroy;
  ops->alloc = ts_cuda_alloc;
  ops->free = ts_cuda_free;
  ops->lane_create = lane_create;
  ops->lane_destroy = lane_destroy;
  ops->submit = submit;
  ops->record = ts_cuda_event_record;
  ops->wait = ts_cuda_event_wait;
  ops->sync = ts_cuda_event_sync;
  ops->done = ts_cuda_event_done;
  ops->copy = copy;
  ops->error = lane_error;
  ops->is_remote = ts_cuda_is_remote;
  ops->at_once = true;
  ops->identify = ts_cuda_identify;
  ops->enter = enter;
  ops->alloc_late = ts_cuda_alloc_late;
  ops->free_late = ts_cuda_free_late;
  ops->range_create = ts_cuda_range_create;
  ops->range_give = ts_cuda_range_give;
  ops->range_destroy = ts_cuda_range_destroy;
  ops->describe = ts_cuda_describe;
  ops->mark = ts_cuda_mark;
  ops->between = ts_cuda_between;
  ops->unmark = ts_cuda_unmark;
  ops->reach = ts_cuda_reach;
  ops->unreach = ts_cuda_unreach;
  ops->graph_create = ts_cuda_graph_create;
  ops->graph_destroy = ts_cuda_graph_destroy;
  ops->graph_begin = ts_cuda_graph_begin;
  ops->graph_end = ts_cuda_graph_end;
}

ts_err ts_cuda_device_create(ts_device **out, const ts_device_options *o) {
  static ts_device_ops ops; /* the same values each time */
  ts_device *d = NULL;
  TS_DO(ts_cuda_use());
  TS_DO(ts_mem_alloc(&d, sizeof *d, TS_TAG_MISC));
  fill(&ops);
  d->ops = &ops;
  d->options = *o;
  if (d->options.n_threads < 1) d->options.n_threads = 1;
  *out = d;
  return TS_OK;
}
