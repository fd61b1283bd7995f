/* device.c - the public face of devices: check, dispatch; buffers, pools. */
#include "runtime/device.h"

#include <omp.h>
#include <stdio.h>
#include <string.h>

#include "runtime/backends.h"
#include "runtime/device_impl.h"
#include "runtime/trace.h"

ts_err ts_device_create(ts_device **out, const char *backend,
                        const ts_device_options *options) {
  const ts_backend *b = ts_backend_find(backend);
  if (!b)
    return ts_fail(TS_ERR_DECK,
                   "run.backend: \"%s\" is not in this build (configure "
                   "found no CUDA toolkit)",
                   backend);
  /* Initial weights are drawn by this thread, so it gets as many threads as
   * compute lanes have. */
  omp_set_num_threads(options->n_threads > 0 ? options->n_threads : 1);
  return b->device_create(out, options);
}

bool ts_device_describe(const ts_device *d, ts_device_info *info) {
  if (d->ops->describe) d->ops->describe(d, info);
  return d->ops->describe != NULL;
}

void ts_device_destroy(ts_device *d) {
  if (!d) return;
  d->ops->destroy(d);
}

void ts_device_fail(ts_device *d, ts_err err) {
  ts_err_record fault;
  int none = 0;
  ts_err_take(&fault);
  if (fault.code == TS_OK) fault.code = err;
  if (__atomic_compare_exchange_n(&d->failed, &none, 1, false, __ATOMIC_RELAXED,
                                  __ATOMIC_RELAXED)) {
    d->fault = fault;
    __atomic_store_n(&d->failed, 2, __ATOMIC_RELEASE);
  }
  ts_err_clear();
  ts_err_put(&fault);
}

static ts_err fault_of(ts_device *d) {
  if (__atomic_load_n(&d->failed, __ATOMIC_ACQUIRE) < 2) return TS_OK;
  ts_err_put(&d->fault);
  return d->fault.code;
}

const char *ts_device_name(const ts_device *d) {
  return d->ops->name;
}

const ts_device_options *ts_device_options_of(const ts_device *d) {
  return &d->options;
}

ts_err ts_lane_create(ts_device *d, ts_lane **out, const char *name,
                      ts_lane_kind kind) {
  ts_err err = d->ops->lane_create(d, out, name, kind);
  if (err == TS_OK) (*out)->row = ts_trace_row_take(name);
  return err;
}

void ts_lane_destroy(ts_lane *lane) {
  if (!lane) return;
  const int row = lane->row;
  lane->device->ops->lane_destroy(lane);
  ts_trace_row_give(row);
}

ts_device *ts_lane_device(const ts_lane *lane) {
  return lane->device;
}

ts_err ts_lane_submit(ts_lane *lane, const char *span, ts_task task,
                      const void *arg, size_t arg_bytes) {
  if (arg_bytes > TS_TASK_ARG_MAX)
    return ts_fail(TS_ERR_INTERNAL, "%s: %zu bytes of arguments", span,
                   arg_bytes);
  return lane->device->ops->submit(lane, span, task, arg, arg_bytes);
}

ts_event ts_lane_record(ts_lane *lane) {
  return lane->device->ops->record(lane);
}

/* The event may be of work that is only noted down so far: launch it first. */
static ts_err start_noted(const ts_lane *lane) {
  char why[128];
  if (!ts_graph_now()) return TS_OK;
  (void)snprintf(why, sizeof why, "the host waits for lane \"%.80s\"",
                 lane->name);
  return ts_graph_cut(why);
}

static ts_err wait_here(void *arg, ts_lane *lane) {
  (void)lane;
  return ts_event_sync(*(const ts_event *)arg);
}

/* An operation that is not enqueued within this reports it by itself. */
static double patience(const ts_lane *lane) {
  const double most = lane->device->options.timeout_s;
  return most > 0 ? most + 5 : 1e9;
}

/* A comm's operation on buffers of LANE's device. */
static ts_err wait_for_end(ts_lane *lane, ts_event event) {
  ts_event end = {0};
  if (!ts_lane_ends_find(event, &end, 0)) {
    TS_DO(start_noted(event.lane));
    if (!ts_lane_ends_find(event, &end, patience(lane)))
      return ts_fail(TS_ERR_COMM, "lane \"%s\" did not get on within %.0f s",
                     event.lane->name, patience(lane));
  }
  TS_DO(ts_lane_error(event.lane));
  return ts_lane_wait(lane, end);
}

/* An event of another kind of device: who runs LANE's tasks waits for it, which
 * is free of deadlocks: all that the event depends on was submitted before. */
static ts_err wait_elsewhere(ts_lane *lane, ts_event event) {
  if (ts_lane_ends_on(event.lane, lane->device))
    return wait_for_end(lane, event);
  if (ts_graph_now() && ts_event_done(event)) return ts_lane_error(event.lane);
  TS_DO(start_noted(event.lane));
  return ts_lane_run(lane, "wait", wait_here, event);
}

ts_err ts_lane_wait(ts_lane *lane, ts_event event) {
  if (!event.lane || event.lane == lane) return TS_OK;
  if (event.lane->device->ops != lane->device->ops)
    return wait_elsewhere(lane, event);
  return lane->device->ops->wait(lane, event);
}

ts_err ts_lane_sync(ts_lane *lane) {
  return ts_event_sync(ts_lane_record(lane));
}

ts_err ts_event_sync(ts_event event) {
  if (!event.lane) return TS_OK;
  if (ts_graph_now() && ts_event_done(event)) return ts_lane_error(event.lane);
  ts_err err = start_noted(event.lane);
  if (err == TS_OK) err = event.lane->device->ops->sync(event);
  return err != TS_OK ? err : fault_of(event.lane->device);
}

bool ts_event_done(ts_event event) {
  return !event.lane || event.lane->device->ops->done(event);
}

ts_err ts_lane_error(ts_lane *lane) {
  return lane->device->ops->error ? lane->device->ops->error(lane) : TS_OK;
}

bool ts_event_watch(ts_event event) {
  if (!event.lane) return true;
  if (!event.lane->device->ops->watch) return false;
  event.lane->device->ops->watch(event, 1);
  return true;
}

void ts_event_unwatch(ts_event event) {
  if (event.lane && event.lane->device->ops->watch)
    event.lane->device->ops->watch(event, -1);
}

bool ts_device_is_discrete(const ts_device *d) {
  return d->ops->is_remote != NULL;
}

bool ts_device_runs_at_once(const ts_device *d) {
  return d->ops->at_once;
}

ts_err ts_device_reach(ts_device *d, void **seen, void *p, size_t bytes,
                       bool pin) {
  *seen = p;
  if (!d->ops->reach || !bytes) return TS_OK;
  return d->ops->reach(d, seen, p, bytes, pin);
}

void ts_device_unreach(ts_device *d, void *p, bool pin) {
  if (d->ops->unreach && pin) d->ops->unreach(d, p);
}

bool ts_device_holds(ts_device *d, const void *p) {
  return p && d->ops->is_remote && d->ops->is_remote(d, p);
}

ts_err ts_lane_copy(ts_lane *lane, void *dst, const void *src, size_t bytes) {
  return ts_lane_copy_as(lane, "copy", dst, src, bytes);
}

ts_err ts_lane_copy_as(ts_lane *lane, const char *span, void *dst,
                       const void *src, size_t bytes) {
  const ts_trace_mark before = ts_trace_mark_now();
  ts_trace_mark mark = before;
  mark.bytes = (int64_t)bytes;
  ts_trace_mark_put(mark);
  const ts_err err = lane->device->ops->copy(lane, span, dst, src, bytes);
  ts_trace_mark_put(before);
  return err;
}

static ts_err create(ts_buffer *b, ts_device *d, size_t bytes, ts_space space,
                     ts_tag tag, bool late) {
  const ts_device_ops *o = d->ops;
  ts_buffer fresh = {.bytes = bytes,
                     .space = space,
                     .tag = tag,
                     .owned = true,
                     .late = late && o->alloc_late,
                     .device = d};
  ts_err err = fresh.late ? o->alloc_late(d, &fresh.ptr, bytes, space, tag)
                          : o->alloc(d, &fresh.ptr, bytes, space, tag);
  *b = err == TS_OK ? fresh : (ts_buffer){0};
  return err;
}

ts_err ts_buffer_create(ts_buffer *b, ts_device *d, size_t bytes,
                        ts_space space, ts_tag tag) {
  return create(b, d, bytes, space, tag, false);
}

ts_err ts_buffer_create_range(ts_buffer *b, ts_device *d, size_t bytes,
                              ts_tag tag) {
  ts_buffer fresh = {.bytes = bytes,
                     .space = TS_SPACE_DEVICE,
                     .tag = tag,
                     .owned = true,
                     .device = d};
  *b = (ts_buffer){0};
  if (d->ops->range_create)
    TS_DO(d->ops->range_create(d, &fresh.range, &fresh.ptr, bytes, tag));
  if (!fresh.ptr) return ts_buffer_create(b, d, bytes, TS_SPACE_DEVICE, tag);
  *b = fresh;
  return TS_OK;
}

ts_err ts_buffer_give(ts_buffer *b, size_t from, size_t to) {
  if (!b->range || from == to) return TS_OK;
  return b->device->ops->range_give(b->device, b->range, from, to);
}

ts_buffer ts_buffer_wrap(void *ptr, size_t bytes, ts_space space) {
  return (ts_buffer){
      .ptr = ptr, .bytes = bytes, .space = space, .tag = TS_TAG_MISC};
}

/* Gives back what B owns; its kind stays. */
static void drop(ts_buffer *b) {
  if (b->owned && b->ptr) {
    const ts_device_ops *o = b->device->ops;
    if (b->range)
      o->range_destroy(b->device, b->range);
    else
      (b->late ? o->free_late : o->free)(b->device, b->ptr, b->bytes, b->space,
                                         b->tag);
    if (b->pool) ts_mem_flight_grow(b->tag, -(int64_t)b->bytes);
  }
  b->ptr = NULL;
  b->range = NULL;
  b->bytes = 0;
}

ts_err ts_buffer_reserve(ts_buffer *b, size_t bytes) {
  if (b->pool && bytes > b->most) {
    if (b->pool->started) ts_mem_flight_use(b->tag, (int64_t)(bytes - b->most));
    b->most = bytes;
  }
  if (bytes <= b->bytes || (b->pool && !b->pool->started)) return TS_OK;
  drop(b);
  ts_buffer fresh;
  TS_DO(create(&fresh, b->device, bytes + bytes / 4, b->space, b->tag, true));
  if (b->pool) ts_mem_flight_grow(b->tag, (int64_t)fresh.bytes);
  fresh.pool = b->pool;
  fresh.most = b->most;
  *b = fresh;
  return TS_OK;
}

void ts_buffer_reset(ts_buffer *b) {
  drop(b);
  if (b->pool && b->pool->started) ts_mem_flight_use(b->tag, -(int64_t)b->most);
  *b = (ts_buffer){0};
}

/* ---- pools --------------------------------------------------------------- */

ts_err ts_pool_add(ts_pool *p, ts_buffer *b) {
  const size_t bytes = (size_t)p->n * sizeof(ts_buffer *);
  TS_DO(ts_mem_resize(&p->buffers, bytes, bytes + sizeof(ts_buffer *),
                      TS_TAG_MISC));
  p->buffers[p->n++] = b;
  p->device = b->device;
  b->pool = p;
  b->most = 0;
  return TS_OK;
}

static size_t room_of(const ts_buffer *b) {
  return (b->most + 63) / 64 * 64;
}

static bool in_arena(const ts_pool *p, const ts_buffer *b, ts_tag tag,
                     ts_space space) {
  return b->pool == p && b->tag == tag && b->space == space;
}

/* The arena of one tag and space, handed out to its buffers. */
static ts_err create_arena(ts_pool *p, ts_tag tag, ts_space space) {
  ts_buffer *arena = &p->arenas[tag][space];
  size_t bytes = 0;
  for (int32_t i = 0; i < p->n; i++)
    if (in_arena(p, p->buffers[i], tag, space)) bytes += room_of(p->buffers[i]);
  if (!bytes) return TS_OK;
  TS_DO(ts_buffer_create(arena, p->device, bytes, space, tag));
  ts_mem_flight_plan(tag, (int64_t)bytes);
  char *at = arena->ptr;
  for (int32_t i = 0; i < p->n; i++) {
    ts_buffer *b = p->buffers[i];
    if (!in_arena(p, b, tag, space) || !b->most) continue;
    b->ptr = at;
    b->bytes = room_of(b);
    at += b->bytes;
    b->most = 0; /* of it nothing is in use */
    b->owned = false;
  }
  return TS_OK;
}

ts_err ts_pool_start(ts_pool *p) {
  for (int t = 0; t < TS_TAG_COUNT; t++)
    for (int s = 0; s < TS_SPACE_COUNT; s++)
      TS_DO(create_arena(p, (ts_tag)t, (ts_space)s));
  p->started = true;
  return TS_OK;
}

void ts_pool_reset(ts_pool *p) {
  for (int t = 0; t < TS_TAG_COUNT; t++)
    for (int s = 0; s < TS_SPACE_COUNT; s++) {
      ts_buffer *a = &p->arenas[t][s];
      if (a->ptr) ts_mem_flight_plan((ts_tag)t, -(int64_t)a->bytes);
      ts_buffer_reset(a);
    }
  ts_mem_free(p->buffers);
  *p = (ts_pool){0};
}
