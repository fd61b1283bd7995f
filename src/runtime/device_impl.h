/* device_impl.h - what devices, lanes and comm backends share; private to
 * runtime/ and cuda/.
 * Functions are Local unless they say Collective or Enqueues. */
#pragma once

#include "runtime/graph.h"

typedef struct ts_lane_ends ts_lane_ends;

/* A device's own struct begins with this one. */
struct ts_device {
  const ts_device_ops *ops;
  ts_device_options options;
  /* Called after a lane that is watched has got on; set by a world, NULL
   * otherwise. */
  void (*on_progress)(void *arg);
  void *on_progress_arg;
  /* The first error of a comm, once FAILED is 2 (0: none, 1: being written).
   * Lanes of a device with discrete memory may have waited for that comm
   * without the host's knowledge. */
  int failed;
  ts_err_record fault;
};

/* A lane's own struct begins with this one. */
struct ts_lane {
  ts_device *device;
  const char *name;
  ts_lane_kind kind;
  int row;            /* of the trace; set by ts_lane_create */
  ts_lane_ends *ends; /* lanes of comms that a library of a device carries */
};

/* A graph's own struct begins with this one. */
struct ts_graph {
  ts_lane *lane;
  ts_graph_counts counts;
};

ts_err ts_device_host_create(ts_device **, const ts_device_options *);
/* device_host_memory.c: of its operations. */
ts_err ts_host_alloc(ts_device *, void **p, size_t bytes, ts_space, ts_tag);
void ts_host_free(ts_device *, void *p, size_t bytes, ts_space, ts_tag);
ts_err ts_host_range_create(ts_device *, ts_range **, void **p, size_t bytes,
                            ts_tag);
ts_err ts_host_range_give(ts_device *, ts_range *, size_t from, size_t to);
void ts_host_range_destroy(ts_device *, ts_range *);

/* For comm backends, whose lanes have no thread (TS_LANE_COMM of the host,
 * and of no other device): begin numbers an operation, complete marks
 * everything up to SEQ as done, fail keeps the calling thread's error as the
 * lane's.  Thread-safe. */
uint64_t ts_lane_begin_seq(ts_lane *);
void ts_lane_complete_seq(ts_lane *, uint64_t seq);
void ts_lane_fail(ts_lane *, ts_err);

/* lane_ends.c: an operation that a library of a device carries is enqueued
 * there before it is done, and then it is known after which event of a lane of
 * that device it is.  Lanes of the device wait for that event, and the host for
 * none.  put: END of operation SEQ, {0} where there is nothing left to do;
 * those after it follow in order.  on: LANE's operations end on DEVICE.  find:
 * *END of the operation EVENT, after waiting WAIT_S at most; false: not known
 * yet. Thread-safe. */
ts_err ts_lane_ends_create(ts_lane *, ts_device *);
void ts_lane_ends_destroy(ts_lane *);
void ts_lane_ends_put(ts_lane *, uint64_t seq, ts_event end);
bool ts_lane_ends_on(const ts_lane *, const ts_device *);
bool ts_lane_ends_find(ts_event, ts_event *end, double wait_s);

ts_err ts_lane_error(ts_lane *); /* and puts its record; of any device */

/* Between watch and unwatch each step of EVENT's lane calls on_progress, so
 * that a thread that waits for several lanes can sleep.  False: it has to poll.
 */
bool ts_event_watch(ts_event);
void ts_event_unwatch(ts_event);

/* Keeps the calling thread's error as DEVICE's fault, unless it has one. */
void ts_device_fail(ts_device *, ts_err);

/* Sleeps MICROSECONDS, the pause between two tests, and no longer: with the 50
 * us that Linux may add, each wait for a GPU or a message would be late. */
void ts_pause(int microseconds);
