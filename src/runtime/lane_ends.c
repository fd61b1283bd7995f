/* lane_ends.c - what the operations of a comm have left to do on a device. */
#include <errno.h>
#include <pthread.h>

#include "base/mem.h"
#include "runtime/device_impl.h"

/* More than a comm has under way: of operations before these the end of a later
 * one is waited for. */
enum { KEPT = 64 };

struct ts_lane_ends {
  ts_device *device;
  pthread_mutex_t lock; /* of what follows */
  pthread_cond_t more;
  uint64_t known;    /* operations up to this one are enqueued */
  ts_event at[KEPT]; /* the end of operation SEQ, at SEQ % KEPT */
};

ts_err ts_lane_ends_create(ts_lane *lane, ts_device *device) {
  ts_lane_ends *e;
  pthread_condattr_t monotonic;
  TS_DO(ts_mem_alloc(&e, sizeof *e, TS_TAG_COMM));
  e->device = device;
  pthread_mutex_init(&e->lock, NULL);
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_cond_init(&e->more, &monotonic);
  pthread_condattr_destroy(&monotonic);
  lane->ends = e;
  return TS_OK;
}

void ts_lane_ends_destroy(ts_lane *lane) {
  ts_lane_ends *e = lane->ends;
  if (!e) return;
  lane->ends = NULL;
  pthread_mutex_destroy(&e->lock);
  pthread_cond_destroy(&e->more);
  ts_mem_free(e);
}

void ts_lane_ends_put(ts_lane *lane, uint64_t seq, ts_event end) {
  ts_lane_ends *e = lane->ends;
  if (!e) return;
  pthread_mutex_lock(&e->lock);
  if (e->known < seq) {
    e->known = seq;
    e->at[seq % KEPT] = end;
    pthread_cond_broadcast(&e->more);
  }
  pthread_mutex_unlock(&e->lock);
}

bool ts_lane_ends_on(const ts_lane *lane, const ts_device *device) {
  return lane->ends && lane->ends->device == device;
}

bool ts_lane_ends_find(ts_event event, ts_event *end, double wait_s) {
  ts_lane_ends *e = event.lane->ends;
  struct timespec until;
  int rc = 0;
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_sec += (time_t)wait_s;
  pthread_mutex_lock(&e->lock);
  while (wait_s > 0 && e->known < event.seq && rc != ETIMEDOUT)
    rc = pthread_cond_timedwait(&e->more, &e->lock, &until);
  const bool known = e->known >= event.seq;
  const uint64_t oldest = e->known < KEPT ? 1 : e->known - KEPT + 1;
  if (known) *end = e->at[(event.seq > oldest ? event.seq : oldest) % KEPT];
  pthread_mutex_unlock(&e->lock);
  return known;
}
