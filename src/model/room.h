/* room.h - memory of a layer whose size is known when a batch is there: one
 * block that grows, cut into arrays.
 * Functions are Local. */
#pragma once

#include "runtime/device.h"

/* An array of N elements of SIZE bytes, for the pointer at TO. */
typedef struct ts_room_part {
  void *to;
  int64_t n, size;
} ts_room_part;

/* Device memory of activations, empty. */
ts_buffer ts_room_of(ts_device *);
/* Parts (N) follow each other.  What was there is forgotten; where the block
 * has to grow, LANE, and whatever has been enqueued there, runs out first. */
ts_err ts_room_take(ts_buffer *, const ts_room_part *, int n, ts_lane *lane);
