/* staging.h - copies between a device's memory and the host's, at once: for
 * set-up and checkpoints, while no lane uses that memory.
 *
 * They go through two pinned pieces of 4 MiB in turns, so that of tables that
 * fill a device the host never has more than that at a time.  Whoever has a
 * pointer need not know where it points: the host's memory is copied as it
 * is.  One thread at a time.
 * Functions are Local unless they say Collective or Enqueues. */
#pragma once

#include "runtime/device.h"

enum { TS_STAGING_PIECE = 4 << 20 };

typedef struct ts_staging {
  ts_device *device;
  ts_lane *lane; /* NULL: the host may touch all memory */
  ts_buffer pieces;
} ts_staging;

ts_err ts_staging_create(ts_staging *, ts_device *);
void ts_staging_reset(ts_staging *);
/* Whether the host may not touch P.  Staging NULL: it may touch anything. */
bool ts_staging_is_remote(const ts_staging *, const void *p);
/* DST is memory of the host; of put SRC.  Staging may be NULL, as above. */
ts_err ts_staging_get(ts_staging *, void *dst, const void *src, size_t bytes);
ts_err ts_staging_put(ts_staging *, void *dst, const void *src, size_t bytes);
