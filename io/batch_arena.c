/* batch_arena.c - the growing block behind a batch. */
#include "io/batch_arena.h"

#include <string.h>

#include "base/mem.h"

enum { ALIGN = 64, BLOCK_MIN = 4096 };

static ts_buffer buffer_of(const ts_batch_arena *a) {
  return (ts_buffer){.ptr = a->base,
                     .bytes = a->bytes,
                     .space = a->space,
                     .tag = TS_TAG_INPUT,
                     .owned = true,
                     .device = a->device};
}

static void free_block(ts_batch_arena *a) {
  ts_buffer b = buffer_of(a);
  if (a->device)
    ts_buffer_reset(&b);
  else
    ts_mem_free(a->base);
}

/* A larger block with the same content. */
static ts_err move_block(ts_batch_arena *a, size_t bytes) {
  ts_batch_arena fresh = *a;
  fresh.bytes = bytes < BLOCK_MIN ? BLOCK_MIN : bytes + bytes / 2;
  if (a->counted)
    ts_mem_flight_grow(TS_TAG_INPUT, (int64_t)(fresh.bytes - a->bytes));
  if (a->device) {
    ts_buffer b;
    TS_DO(ts_buffer_create(&b, a->device, fresh.bytes, a->space, TS_TAG_INPUT));
    fresh.base = b.ptr;
  } else {
    TS_DO(ts_mem_alloc(&fresh.base, fresh.bytes, TS_TAG_INPUT));
  }
  if (a->used_bytes) memcpy(fresh.base, a->base, a->used_bytes);
  free_block(a);
  *a = fresh;
  return TS_OK;
}

ts_err ts_batch_arena_grow(ts_batch_arena *a, ts_batch_piece *piece,
                           size_t bytes) {
  const size_t room = (bytes + ALIGN - 1) / ALIGN * ALIGN;
  if (a->base && piece->bytes && bytes <= piece->bytes) return TS_OK;
  if (room < bytes)
    return ts_fail(TS_ERR_NOMEM, "a batch of %zu bytes is too large", bytes);
  const bool last = piece->bytes && piece->at + piece->bytes == a->used_bytes;
  const size_t at = last ? piece->at : a->used_bytes;
  if (!a->base || at + room > a->bytes) TS_DO(move_block(a, at + room));
  if (!last && piece->bytes)
    memcpy(a->base + at, a->base + piece->at, piece->bytes);
  a->used_bytes = at + room;
  if (a->counted && a->used_bytes > a->most_bytes) {
    ts_mem_flight_use(TS_TAG_INPUT, (int64_t)(a->used_bytes - a->most_bytes));
    a->most_bytes = a->used_bytes;
  }
  *piece = (ts_batch_piece){at, room};
  return TS_OK;
}

void ts_batch_arena_rewind(ts_batch_arena *a) {
  a->used_bytes = 0;
}

void ts_batch_arena_count(ts_batch_arena *a) {
  a->counted = true;
  ts_mem_flight_plan(TS_TAG_INPUT, (int64_t)a->bytes);
}

void ts_batch_arena_reset(ts_batch_arena *a) {
  free_block(a);
  if (a->counted) {
    ts_mem_flight_plan(TS_TAG_INPUT, -(int64_t)a->bytes);
    ts_mem_flight_use(TS_TAG_INPUT, -(int64_t)a->most_bytes);
  }
  *a = (ts_batch_arena){.device = a->device, .space = a->space};
}
