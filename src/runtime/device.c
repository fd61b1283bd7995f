/* device.c - the public face of devices: check, dispatch; buffers, arenas. */
#include "runtime/device.h"

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
  return b->device_create(out, options);
}

void ts_device_destroy(ts_device *d) {
  if (d) d->ops->destroy(d);
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

const char *ts_lane_name(const ts_lane *lane) {
  return lane->name;
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

ts_err ts_lane_wait(ts_lane *lane, ts_event event) {
  if (!event.lane || event.lane == lane) return TS_OK;
  return lane->device->ops->wait(lane, event);
}

ts_err ts_lane_sync(ts_lane *lane) {
  return ts_event_sync(ts_lane_record(lane));
}

ts_err ts_event_sync(ts_event event) {
  return event.lane ? event.lane->device->ops->sync(event) : TS_OK;
}

bool ts_event_done(ts_event event) {
  return !event.lane || event.lane->device->ops->done(event);
}

ts_err ts_lane_copy(ts_lane *lane, void *dst, const void *src, size_t bytes) {
  return lane->device->ops->copy(lane, dst, src, bytes);
}

ts_err ts_buffer_create(ts_buffer *b, ts_device *d, size_t bytes,
                        ts_space space, ts_tag tag) {
  ts_buffer fresh = {NULL, bytes, space, tag, true, d};
  ts_err err = d->ops->alloc(d, &fresh.ptr, bytes, space, tag);
  *b = err == TS_OK ? fresh : (ts_buffer){0};
  return err;
}

ts_buffer ts_buffer_wrap(void *ptr, size_t bytes, ts_space space) {
  return (ts_buffer){ptr, bytes, space, TS_TAG_MISC, false, NULL};
}

ts_err ts_buffer_reserve(ts_buffer *b, size_t bytes) {
  if (bytes <= b->bytes) return TS_OK;
  ts_buffer old = *b;
  if (b->ptr)
    b->device->ops->free(b->device, b->ptr, b->bytes, b->space, b->tag);
  *b = (ts_buffer){NULL, 0, old.space, old.tag, true, old.device};
  ts_buffer fresh;
  ts_err err = ts_buffer_create(&fresh, old.device, bytes + bytes / 4,
                                old.space, old.tag);
  if (err == TS_OK) *b = fresh;
  return err;
}

void ts_buffer_reset(ts_buffer *b) {
  if (b->owned && b->ptr)
    b->device->ops->free(b->device, b->ptr, b->bytes, b->space, b->tag);
  *b = (ts_buffer){0};
}

ts_err ts_arena_create(ts_arena *a, ts_device *d, size_t bytes, ts_space space,
                       ts_tag tag) {
  *a = (ts_arena){0};
  return ts_buffer_create(&a->buffer, d, bytes, space, tag);
}

ts_err ts_arena_take(ts_arena *a, void *p, size_t bytes) {
  size_t n = (bytes + 63) / 64 * 64;
  if (n < bytes || n > a->buffer.bytes - a->used_bytes)
    return ts_fail(TS_ERR_NOMEM, "an arena of %zu bytes for %s is too small",
                   a->buffer.bytes, ts_tag_text(a->buffer.tag));
  void *piece = (char *)a->buffer.ptr + a->used_bytes;
  memcpy(p, &piece, sizeof piece);
  a->used_bytes += n;
  if (a->used_bytes > a->peak_bytes) a->peak_bytes = a->used_bytes;
  return TS_OK;
}

void ts_arena_rewind(ts_arena *a) {
  a->used_bytes = 0;
}

void ts_arena_reset(ts_arena *a) {
  ts_buffer_reset(&a->buffer);
  *a = (ts_arena){0};
}
