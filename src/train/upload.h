/* upload.h - batches on their way to a discrete device.
 *
 * A batch lies in one block (io/batch.h).  On a device whose memory the host
 * may not touch the block goes up whole, in one copy on a lane of its own,
 * "memcpy", beside whatever else the device does; micro-batches that are cut
 * from it share it.  On the host there are no uploads, everyone reads the
 * batch where it is, and all of these do nothing.
 *
 * The buffers of the device take turns: one is written again when nobody
 * needs what it holds, and then the lane waits, not the host.
 * Functions are Local unless they say Collective or Enqueues. */
#pragma once

#include "io/batch.h"
#include "runtime/clock.h"
#include "runtime/device.h"

typedef struct ts_uploads ts_uploads; /* NULL: the host's */
typedef struct ts_upload ts_upload;   /* NULL: read the batch itself */

/* *OUT stays NULL where DEVICE is not discrete. */
ts_err ts_uploads_create(ts_uploads **out, ts_device *device);
void ts_uploads_destroy(ts_uploads *); /* after whoever reads them */

/* N batches of BYTES are under way at once: room for them before step 0, or
 * with BYTES 0, not known yet, when they come.  More or larger ones get theirs
 * when they come, too. */
ts_err ts_uploads_expect(ts_uploads *, int n, size_t bytes);

/* BATCH is on its way.  AGAIN: it is cut from the same batch as the one
 * before.  *OUT: for one call of end. */
ts_err ts_upload_begin(ts_uploads *, const ts_batch *batch, bool again,
                       ts_upload **out);
/* Before it the device doesn't see the batch, and the batch's own arrays must
 * stay as they are. */
ts_event ts_upload_copied(const ts_upload *);
/* Where the device sees P of the batch. */
const void *ts_upload_address(const ts_upload *, const void *p);
/* Nobody reads it after DONE, {0}: now. */
void ts_upload_end(ts_upload *, ts_event done);

/* Since creation. */
typedef struct ts_upload_stat {
  int64_t n_copies, n_bytes;
} ts_upload_stat;
ts_upload_stat ts_upload_stat_of(const ts_uploads *);
ts_lane *ts_uploads_lane(const ts_uploads *); /* NULL: none */
/* For benchmarks: the newest N copies are timed from now on.  times: copy I,
 * from 0, in seconds since MARK of CLOCK, which came before; the host has
 * waited for both lanes. */
ts_err ts_uploads_time(ts_uploads *, int n);
ts_err ts_upload_times(const ts_uploads *, int64_t i, const ts_clock *clock,
                       int mark, double *from, double *to);
