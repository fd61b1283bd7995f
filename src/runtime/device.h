/* device.h - memory, lanes and events: all that the rest knows of a device.
 *
 * A lane is an ordered queue of work: a CUDA stream, or on the host a worker
 * thread with a FIFO.  An event is a snapshot of a lane's position, never
 * "the next record".  Pipelines, prefetch and bucketed reductions are
 * written once against these.
 *
 * One host thread (the scheduler) enqueues; tasks run in the order of the
 * lane.  On the host with serial lanes each submission runs at once in the
 * calling thread, with the same results bit for bit.
 *
 * A lane keeps its first error and runs nothing after it: later tasks are
 * dropped, its events still complete, and ts_lane_sync / ts_event_sync
 * return the error with its message. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/mem.h"

typedef struct ts_device ts_device;
typedef struct ts_lane ts_lane;
struct ts_graph;

/* Position of a lane; {0} is an event that is always complete. */
typedef struct ts_event {
  ts_lane *lane;
  uint64_t seq;
} ts_event;

/* Work of a lane.  On the host it computes; on a GPU it launches kernels on
 * the lane's stream and returns.  ARG is the lane's own copy. */
typedef ts_err (*ts_task)(void *arg, ts_lane *lane);

enum { TS_TASK_ARG_MAX = 384 }; /* bytes of argument that a task may have */
enum { TS_DEVICE_ID = 64 };     /* bytes of a device's name of its own */

typedef struct ts_device_options {
  bool serial;      /* run each submission at once in the calling thread */
  int n_threads;    /* OpenMP threads of a compute lane, and of the thread that
                     * creates the device, >= 1 */
  double timeout_s; /* deadline of each host wait; 0: none */
} ts_device_options;

/* A lane's role: how many threads its tasks may use, and its priority. */
typedef enum {
  TS_LANE_COMPUTE, /* n_threads of the device's options */
  TS_LANE_DATA,    /* input work: one thread, high priority on GPUs */
  TS_LANE_COMM     /* served by the comm backend: has no thread of its own */
} ts_lane_kind;

/* A device's description for the log; the host has none. */
typedef struct ts_device_info {
  char text[256];        /* name, memory, versions */
  char note[256];        /* what is wrong with it, "" nothing */
  char id[TS_DEVICE_ID]; /* the same for processes that share it */
  double bytes;          /* of its memory; 0: not known */
} ts_device_info;

typedef struct ts_range ts_range; /* of ts_buffer_create_range */

/* The functions of a kind of device: src/runtime/device_host.c,
 * cuda/runtime/device.cu. */
typedef struct ts_device_ops {
  const char *name; /* "host", "cuda" */
  void (*destroy)(ts_device *);
  ts_err (*alloc)(ts_device *, void **p, size_t bytes, ts_space, ts_tag);
  void (*free)(ts_device *, void *p, size_t bytes, ts_space, ts_tag);
  ts_err (*lane_create)(ts_device *, ts_lane **, const char *name,
                        ts_lane_kind);
  void (*lane_destroy)(ts_lane *);
  ts_err (*submit)(ts_lane *, const char *span, ts_task, const void *arg,
                   size_t arg_bytes);
  ts_event (*record)(ts_lane *);
  ts_err (*wait)(ts_lane *, ts_event);
  ts_err (*sync)(ts_event); /* the host waits */
  bool (*done)(ts_event);
  ts_err (*copy)(ts_lane *, const char *span, void *dst, const void *src,
                 size_t bytes);
  /* The lane's error so far, put; the host does not wait. */
  ts_err (*error)(ts_lane *);
  /* BY more (or less) wait for EVENT's lane and want on_progress; NULL: its
   * events can only be asked for. */
  void (*watch)(ts_event, int by);
  /* Only devices with discrete memory have these; NULL on the host.  is_remote:
   * the host may not touch P.  identify: names the device, the same for
   * processes that share it.  enter: the calling thread begins to use it; may
   * be NULL. */
  bool (*is_remote)(ts_device *, const void *p);
  bool at_once; /* ts_device_runs_at_once */
  ts_err (*identify)(ts_device *, char id[TS_DEVICE_ID]);
  ts_err (*enter)(ts_device *);
  /* As alloc and free, for what can't be sized before lanes run: doesn't wait
   * for them.  NULL: alloc and free. */
  ts_err (*alloc_late)(ts_device *, void **p, size_t bytes, ts_space, ts_tag);
  void (*free_late)(ts_device *, void *p, size_t bytes, ts_space, ts_tag);
  /* ts_buffer_create_range, give; *P NULL, or all three: the device has no
   * addresses without memory. */
  ts_err (*range_create)(ts_device *, ts_range **, void **p, size_t bytes,
                         ts_tag);
  ts_err (*range_give)(ts_device *, ts_range *, size_t from, size_t to);
  void (*range_destroy)(ts_device *, ts_range *);
  void (*describe)(const ts_device *, ts_device_info *); /* NULL: the host */
  /* For runtime/clock.h.  Where all three are NULL tasks take the time by
   * ts_now.  mark creates *MARK where it is NULL. */
  ts_err (*mark)(ts_lane *, void **mark);
  ts_err (*between)(ts_lane *, void *a, void *b, double *seconds);
  void (*unmark)(void *mark);
  /* ts_device_reach, unreach; NULL: all of the host's memory is reached. */
  ts_err (*reach)(ts_device *, void **seen, void *p, size_t bytes, bool pin);
  void (*unreach)(ts_device *, void *p);
  /* For runtime/graph.h.  All four are NULL where the device has no graphs. */
  ts_err (*graph_create)(struct ts_graph **, ts_lane *);
  void (*graph_destroy)(struct ts_graph *);
  ts_err (*graph_begin)(struct ts_graph *);
  ts_err (*graph_end)(struct ts_graph *);
} ts_device_ops;

/* backend: "host" or "cuda" ("cuda" fails with DECK where it is not built
 * in or no GPU is there).  Local. */
ts_err ts_device_create(ts_device **, const char *backend,
                        const ts_device_options *);
void ts_device_destroy(ts_device *); /* after all its lanes */
const char *ts_device_name(const ts_device *);
const ts_device_options *ts_device_options_of(const ts_device *);
/* True where TS_SPACE_DEVICE is memory that the host may not touch: kernels
 * and copies alone see what lies there.  False on the host. */
bool ts_device_is_discrete(const ts_device *);
/* True where a task runs as it is submitted, on the thread that submits it, and
 * only what it launches is done later: what a task leaves in the host's memory
 * is there at once. */
bool ts_device_runs_at_once(const ts_device *);
/* Lets kernels read and write BYTES of the host's memory at P, on borders of
 * pages; they see them at *SEEN.  PIN: the pages may be kept in
 * memory until unreach; else (files that are larger) DECK where the device
 * can't without. */
ts_err ts_device_reach(ts_device *, void **seen, void *p, size_t bytes,
                       bool pin);
void ts_device_unreach(ts_device *, void *p, bool pin);
/* True where the host may not touch P, which is this device's. */
bool ts_device_holds(ts_device *, const void *p);
/* False where there is nothing to say: the host. */
bool ts_device_describe(const ts_device *, ts_device_info *);

ts_err ts_lane_create(ts_device *, ts_lane **, const char *name, ts_lane_kind);
void ts_lane_destroy(ts_lane *); /* runs out what is queued first */
ts_device *ts_lane_device(const ts_lane *);

/* Enqueues TASK with a copy of ARG (<= TS_TASK_ARG_MAX bytes); SPAN (static
 * string) names it in the trace.  Returns the lane's error if it has one
 * already; else OK at once (serial lanes: the task's own result). */
ts_err ts_lane_submit(ts_lane *, const char *span, ts_task, const void *arg,
                      size_t arg_bytes);
/* The same with the variable ARG, whatever its type. */
#define ts_lane_run(lane, span, task, arg)                                     \
  ts_lane_submit(lane, span, task, &(arg), sizeof(arg))
ts_event ts_lane_record(ts_lane *); /* all submitted so far */
/* Enqueue: LANE waits, not the host.  For an operation of a comm that a library
 * of LANE's device carries the host waits until it is enqueued; for another
 * event of another kind of device the thread that runs LANE's tasks waits to
 * its end: on a GPU the host. */
ts_err ts_lane_wait(ts_lane *, ts_event);
ts_err ts_lane_sync(ts_lane *); /* the host waits for all of it */
ts_err ts_event_sync(ts_event); /* the host waits */
bool ts_event_done(ts_event);
/* Enqueues a copy, host or device memory on either side. */
ts_err ts_lane_copy(ts_lane *, void *dst, const void *src, size_t bytes);
/* SPAN (static string) names it in the trace, which says its bytes, too. */
ts_err ts_lane_copy_as(ts_lane *, const char *span, void *dst, const void *src,
                       size_t bytes);

/* Memory that knows where it lives and who owns it. */
typedef struct ts_buffer {
  void *ptr;
  size_t bytes;
  ts_space space;
  ts_tag tag;
  bool owned, late; /* late: of alloc_late */
  ts_device *device;
  struct ts_pool *pool; /* NULL: in none */
  ts_range *range;      /* NULL: all of it has memory */
  size_t most;          /* bytes asked for at most, of a pool's buffer */
} ts_buffer;

/* create owns, wrap borrows, reserve grows without keeping the content (the
 * caller makes sure that no lane still uses it), reset frees what is owned.
 * Zeroed at creation. */
ts_err ts_buffer_create(ts_buffer *, ts_device *, size_t bytes, ts_space,
                        ts_tag);
/* A device's memory that grows where it is.  create_range takes BYTES of
 * addresses alone, which nobody may use; once give has returned, those from
 * FROM to TO have memory, zeroed, that was not asked for before.  Work that is
 * under way does not mind.  A device that has no such addresses gives all of it
 * at once.  What counts as taken is what was given.  NOMEM. */
ts_err ts_buffer_create_range(ts_buffer *, ts_device *, size_t bytes, ts_tag);
ts_err ts_buffer_give(ts_buffer *, size_t from, size_t to);
ts_buffer ts_buffer_wrap(void *ptr, size_t bytes, ts_space);
ts_err ts_buffer_reserve(ts_buffer *, size_t bytes);
void ts_buffer_reset(ts_buffer *);

/* A pool: buffers whose sizes are found out before step 0 lie in one arena
 * for each tag and space, in 64-byte aligned pieces.  After ts_pool_add a
 * buffer's reserve only notes what is asked for, until ts_pool_start gives all
 * of them that much.  One that needs more later gets memory of its own, which
 * base/mem.h counts as grown.  Buffers stay where they are, and are reset
 * before the pool. */
typedef struct ts_pool {
  ts_device *device;
  ts_buffer **buffers; /* (n) */
  int32_t n;
  bool started;
  ts_buffer arenas[TS_TAG_COUNT][TS_SPACE_COUNT];
} ts_pool;

/* Takes in B, which has space and tag and is empty. */
ts_err ts_pool_add(ts_pool *, ts_buffer *b);
ts_err ts_pool_start(ts_pool *);
void ts_pool_reset(ts_pool *);
