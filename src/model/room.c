/* room.c - a block that grows with its batches. */
#include "model/room.h"

#include <string.h>

ts_buffer ts_room_of(ts_device *device) {
  return (ts_buffer){.space = TS_SPACE_DEVICE,
                     .tag = TS_TAG_ACTIVATIONS,
                     .owned = true,
                     .device = device};
}

static int64_t bytes_of(const ts_room_part *p) {
  return (p->n * p->size + 63) / 64 * 64;
}

ts_err ts_room_take(ts_buffer *room, const ts_room_part *parts, int n,
                    ts_lane *lane) {
  int64_t bytes = 0;
  for (int k = 0; k < n; k++) bytes += bytes_of(&parts[k]);
  if ((size_t)bytes > room->bytes) {
    TS_DO(ts_lane_sync(lane));
    TS_DO(ts_buffer_reserve(room, (size_t)bytes));
  }
  char *at = room->ptr;
  for (int k = 0; k < n; k++) {
    memcpy(parts[k].to, &at, sizeof at);
    at += bytes_of(&parts[k]);
  }
  return TS_OK;
}
