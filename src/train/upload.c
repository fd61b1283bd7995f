/* upload.c - batches on their way to a discrete device. */
#include "train/upload.h"

#include "base/mem.h"

struct ts_upload {
  ts_buffer there;   /* the block, on the device */
  const char *arena; /* whose copy it is */
  size_t bytes;
  int64_t step;
  int64_t turn; /* when it was written */
  int n_users;
  ts_event copied, done;
};

enum { UPLOADS_MAX = 16 };

struct ts_uploads {
  ts_device *device;
  ts_lane *lane;
  ts_pool pool; /* of the buffers that are expected */
  ts_upload item[UPLOADS_MAX];
  int n, n_expected;
  ts_upload *last; /* the newest */
  ts_upload_stat stat;
  ts_clock *clock; /* two marks for each of the newest copies; NULL: none */
  int n_timed;
};

ts_err ts_uploads_create(ts_uploads **out, ts_device *device) {
  ts_err err = TS_OK;
  ts_uploads *u = NULL;
  *out = NULL;
  if (!ts_device_is_discrete(device)) return TS_OK;
  TS_TRY(ts_mem_alloc(&u, sizeof *u, TS_TAG_MISC));
  u->device = device;
  TS_TRY(ts_lane_create(device, &u->lane, "memcpy", TS_LANE_DATA));
  *out = u;
done:
  if (err != TS_OK) ts_uploads_destroy(u);
  return err;
}

void ts_uploads_destroy(ts_uploads *u) {
  if (!u) return;
  ts_clock_destroy(u->clock);
  ts_lane_destroy(u->lane);
  for (int i = 0; i < u->n; i++) ts_buffer_reset(&u->item[i].there);
  ts_pool_reset(&u->pool);
  ts_mem_free(u);
}

/* One more, empty. */
static ts_err add(ts_uploads *u, ts_upload **out) {
  if (u->n == UPLOADS_MAX)
    return ts_fail(TS_ERR_INTERNAL, "%d batches under way are too many", u->n);
  ts_upload *x = *out = &u->item[u->n++];
  *x = (ts_upload){.there = {.space = TS_SPACE_DEVICE,
                             .tag = TS_TAG_INPUT,
                             .owned = true,
                             .device = u->device}};
  return TS_OK;
}

ts_err ts_uploads_expect(ts_uploads *u, int n, size_t bytes) {
  if (!u) return TS_OK;
  u->n_expected = n < UPLOADS_MAX ? n : UPLOADS_MAX;
  if (u->pool.started || !bytes) return TS_OK;
  while (u->n < n && u->n < UPLOADS_MAX) {
    ts_upload *x;
    TS_DO(add(u, &x));
    TS_DO(ts_pool_add(&u->pool, &x->there));
    TS_DO(ts_buffer_reserve(&x->there, bytes));
  }
  return ts_pool_start(&u->pool);
}

/* A fresh one until all are there that are expected; then of those that nobody
 * needs the oldest: most likely its readers are done. */
static ts_err choose(ts_uploads *u, ts_upload **out) {
  *out = NULL;
  for (int i = 0; u->n >= u->n_expected && i < u->n; i++) {
    ts_upload *x = &u->item[i];
    if (!x->n_users && (!*out || x->turn < (*out)->turn)) *out = x;
  }
  return *out ? TS_OK : add(u, out);
}

/* Mark SIDE (0, 1) of the copy at hand. */
static ts_err mark(const ts_uploads *u, int side) {
  if (!u->clock) return TS_OK;
  return ts_clock_mark(u->clock,
                       2 * (int)(u->stat.n_copies % u->n_timed) + side);
}

static ts_err send(ts_uploads *u, ts_upload *x, const ts_batch *b) {
  /* A buffer that grows moves and is given back at once: wait for its readers.
   */
  if (b->arena_bytes > x->there.bytes) TS_DO(ts_event_sync(x->done));
  TS_DO(ts_buffer_reserve(&x->there, b->arena_bytes));
  TS_DO(ts_lane_wait(u->lane, x->done));
  TS_DO(mark(u, 0));
  TS_DO(ts_lane_copy_as(u->lane, "batch to device", x->there.ptr, b->arena,
                        b->arena_bytes));
  TS_DO(mark(u, 1));
  x->copied = ts_lane_record(u->lane);
  x->done = x->copied;
  x->arena = b->arena;
  x->bytes = b->arena_bytes;
  x->step = b->step;
  x->turn = ++u->stat.n_copies;
  u->stat.n_bytes += (int64_t)b->arena_bytes;
  u->last = x;
  return TS_OK;
}

ts_err ts_upload_begin(ts_uploads *u, const ts_batch *b, bool again,
                       ts_upload **out) {
  ts_upload *x;
  *out = NULL;
  if (!u || !b->n) return TS_OK;
  x = u->last;
  if (!again || !x || x->arena != b->arena || x->step != b->step) {
    TS_DO(choose(u, &x));
    TS_DO(send(u, x, b));
  }
  x->n_users++;
  *out = x;
  return TS_OK;
}

ts_event ts_upload_copied(const ts_upload *x) {
  return x ? x->copied : (ts_event){0};
}

const void *ts_upload_address(const ts_upload *x, const void *p) {
  return x && p ? (const char *)x->there.ptr + ((const char *)p - x->arena) : p;
}

void ts_upload_end(ts_upload *x, ts_event done) {
  if (!x) return;
  x->n_users--;
  if (done.lane) x->done = done;
}

ts_upload_stat ts_upload_stat_of(const ts_uploads *u) {
  return u ? u->stat : (ts_upload_stat){0};
}

ts_err ts_uploads_time(ts_uploads *u, int n) {
  ts_clock_destroy(u->clock);
  u->clock = NULL;
  TS_DO(ts_clock_create(&u->clock, u->lane, 2 * n));
  u->n_timed = n;
  return TS_OK;
}

ts_err ts_upload_times(const ts_uploads *u, int64_t i, const ts_clock *clock,
                       int mark, double *from, double *to) {
  const int at = 2 * (int)(i % u->n_timed);
  const ts_err err = ts_clock_across(clock, mark, u->clock, at, from);
  return err == TS_OK ? ts_clock_across(clock, mark, u->clock, at + 1, to)
                      : err;
}

ts_lane *ts_uploads_lane(const ts_uploads *u) {
  return u ? u->lane : NULL;
}
