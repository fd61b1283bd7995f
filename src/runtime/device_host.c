/* device_host.c - the host as a device: a lane is a worker thread with a
 * FIFO, or with serial lanes the calling thread itself. */
#include <errno.h>
#include <omp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "base/fault.h"
#include "runtime/device_impl.h"
#include "runtime/overlap.h"
#include "runtime/topology.h"
#include "runtime/trace.h"

/* Tasks that a lane takes before its queue grows: more than a step of some
 * hundred tables has. */
enum { RING_MIN = 512 };

/* One thing that a lane does: a task, or waiting for EVENT. */
typedef struct ts_entry {
  ts_task task; /* NULL: wait */
  const char *span;
  ts_event event;
  ts_trace_mark mark;
  _Alignas(16) char arg[TS_TASK_ARG_MAX];
} ts_entry;

typedef struct ts_host_lane {
  ts_lane base;
  pthread_t thread;
  bool has_thread, stop; /* stop: under lock */
  pthread_mutex_t lock;
  pthread_cond_t more;     /* the FIFO got an entry */
  pthread_cond_t progress; /* done grew */
  ts_entry *ring;          /* (capacity), a power of two */
  uint64_t capacity;
  uint64_t submitted; /* under lock */
  atomic_uint_fast64_t done;
  atomic_int n_watchers;
  ts_err_record fault; /* first error; code OK: none; under lock */
} ts_host_lane;

static ts_host_lane *host(ts_lane *lane) {
  return (ts_host_lane *)lane;
}

void ts_pause(int microseconds) {
  static _Thread_local bool is_precise;
  const struct timespec t = {0, 1000L * microseconds};
  if (!is_precise) prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
  is_precise = true;
  nanosleep(&t, NULL);
}

/* ---- errors and completion ----------------------------------------------- */

static void keep_fault(ts_host_lane *l, ts_err err) {
  ts_err_record fault;
  ts_err_take(&fault);
  if (fault.code == TS_OK) fault.code = err;
  pthread_mutex_lock(&l->lock);
  if (l->fault.code == TS_OK) l->fault = fault;
  pthread_mutex_unlock(&l->lock);
}

static ts_err fault_of(ts_host_lane *l, bool put) {
  pthread_mutex_lock(&l->lock);
  ts_err_record fault = l->fault;
  pthread_mutex_unlock(&l->lock);
  if (put && fault.code != TS_OK) ts_err_put(&fault);
  return fault.code;
}

static void complete(ts_host_lane *l, uint64_t seq) {
  ts_yield();
  pthread_mutex_lock(&l->lock);
  atomic_store(&l->done, seq);
  pthread_cond_broadcast(&l->progress);
  pthread_mutex_unlock(&l->lock);
  const ts_device *d = l->base.device;
  if (atomic_load(&l->n_watchers) && d->on_progress)
    d->on_progress(d->on_progress_arg);
}

static void watch(ts_event event, int by) {
  atomic_fetch_add(&host(event.lane)->n_watchers, by);
}

uint64_t ts_lane_begin_seq(ts_lane *lane) {
  ts_host_lane *l = host(lane);
  pthread_mutex_lock(&l->lock);
  uint64_t seq = ++l->submitted;
  pthread_mutex_unlock(&l->lock);
  return seq;
}

void ts_lane_complete_seq(ts_lane *lane, uint64_t seq) {
  complete(host(lane), seq);
}

void ts_lane_fail(ts_lane *lane, ts_err err) {
  keep_fault(host(lane), err);
}

static ts_err lane_error(ts_lane *lane) {
  return fault_of(host(lane), true);
}

/* Blocks the calling thread until EVENT is done; OK also where its lane has
 * failed (the caller looks at that itself).  COMM after the deadline. */
static ts_err block(ts_event event, double timeout_s) {
  ts_host_lane *l = host(event.lane);
  struct timespec end;
  int rc = 0;
  ts_yield();
  if (atomic_load(&l->done) >= event.seq) return TS_OK;
  clock_gettime(CLOCK_MONOTONIC, &end);
  end.tv_sec += timeout_s > 0 ? (time_t)timeout_s + 1 : 1000000000;
  pthread_mutex_lock(&l->lock);
  while (atomic_load(&l->done) < event.seq && rc != ETIMEDOUT)
    rc = pthread_cond_timedwait(&l->progress, &l->lock, &end);
  pthread_mutex_unlock(&l->lock);
  if (atomic_load(&l->done) < event.seq)
    return ts_fail(TS_ERR_COMM, "lane \"%s\" did not get on within %.0f s",
                   l->base.name, timeout_s);
  return TS_OK;
}

/* ---- the worker ---------------------------------------------------------- */

static double deadline(const ts_host_lane *l) {
  /* A collective reports its own deadline; lanes that wait for it give it
   * time to do so. */
  return l->base.device->options.timeout_s > 0
             ? l->base.device->options.timeout_s + 5
             : 0;
}

static void book(const ts_host_lane *l, const ts_entry *e, ts_span_kind kind,
                 double t0, double t1) {
  ts_trace_span(&(ts_span){.row = l->base.row,
                           .kind = kind,
                           .name = e->span,
                           .mark = e->mark,
                           .t0 = t0,
                           .t1 = t1});
}

/* Waiting is a span of its own, where there was something to wait for. */
static ts_err run_wait(ts_host_lane *l, ts_entry *e) {
  if (atomic_load(&host(e->event.lane)->done) >= e->event.seq) return TS_OK;
  double t0 = ts_now();
  ts_err err = block(e->event, deadline(l));
  book(l, e, TS_SPAN_WAIT, t0, ts_now());
  return err;
}

static ts_err run_entry(ts_host_lane *l, ts_entry *e) {
  if (!e->task) {
    ts_err err = run_wait(l, e);
    return err != TS_OK ? err : fault_of(host(e->event.lane), true);
  }
  double t0 = ts_now();
  ts_overlap_work_begin();
  ts_timer_enter(e->span);
  ts_err err = e->task(e->arg, &l->base);
  ts_timer_enter(NULL);
  ts_overlap_work_end();
  double t1 = ts_now();
  ts_timer_add(e->span, t1 - t0);
  book(l, e, l->base.kind == TS_LANE_COMPUTE ? TS_SPAN_COMPUTE : TS_SPAN_DATA,
       t0, t1);
  return err;
}

static void *work(void *arg) {
  ts_host_lane *l = arg;
  ts_entry e;
  uint64_t at = 0;
  if (l->base.kind == TS_LANE_COMPUTE) ts_bind_compute();
  omp_set_num_threads(
      l->base.kind == TS_LANE_COMPUTE ? l->base.device->options.n_threads : 1);
  for (;;) {
    ts_yield();
    pthread_mutex_lock(&l->lock);
    while (l->submitted == at && !l->stop)
      pthread_cond_wait(&l->more, &l->lock);
    bool end = l->submitted == at;
    bool failed = l->fault.code != TS_OK;
    if (!end) e = l->ring[at & (l->capacity - 1)];
    pthread_mutex_unlock(&l->lock);
    if (end) return NULL;
    ts_trace_mark_put(e.mark);
    ts_err err = failed ? TS_OK : run_entry(l, &e);
    if (err != TS_OK) keep_fault(l, err);
    complete(l, ++at);
  }
}

/* ---- operations ---------------------------------------------------------- */

static ts_err grow(ts_host_lane *l) {
  ts_entry *fresh;
  uint64_t capacity = l->capacity ? 2 * l->capacity : RING_MIN;
  TS_DO(ts_mem_many(fresh, (int64_t)capacity, MISC));
  for (uint64_t i = atomic_load(&l->done); i < l->submitted; i++)
    fresh[i & (capacity - 1)] = l->ring[i & (l->capacity - 1)];
  ts_mem_free(l->ring);
  l->ring = fresh;
  l->capacity = capacity;
  return TS_OK;
}

static ts_err enqueue(ts_host_lane *l, const ts_entry *e, size_t arg_bytes) {
  ts_err err = TS_OK;
  ts_yield();
  pthread_mutex_lock(&l->lock);
  if (l->fault.code != TS_OK) {
    ts_err_put(&l->fault);
    err = l->fault.code;
  } else if (l->submitted - atomic_load(&l->done) == l->capacity) {
    err = grow(l);
  }
  if (err == TS_OK) {
    ts_entry *to = &l->ring[l->submitted & (l->capacity - 1)];
    to->task = e->task;
    to->span = e->span;
    to->event = e->event;
    to->mark = e->mark;
    memcpy(to->arg, e->arg, arg_bytes);
    l->submitted++;
    pthread_cond_signal(&l->more);
  }
  pthread_mutex_unlock(&l->lock);
  return err;
}

static ts_err run_now(ts_host_lane *l, ts_entry *e) {
  ts_err err = fault_of(l, true);
  if (err == TS_OK) err = run_entry(l, e);
  if (err != TS_OK) {
    keep_fault(l, err);
    err = fault_of(l, true);
  }
  complete(l, ts_lane_begin_seq(&l->base));
  return err;
}

static ts_err submit(ts_lane *lane, const char *span, ts_task task,
                     const void *arg, size_t arg_bytes) {
  ts_host_lane *l = host(lane);
  ts_entry e;
  e.task = task;
  e.span = span;
  e.event = (ts_event){0};
  e.mark = ts_trace_mark_now();
  if (arg_bytes) memcpy(e.arg, arg, arg_bytes);
  return l->has_thread ? enqueue(l, &e, arg_bytes) : run_now(l, &e);
}

static ts_err wait_event(ts_lane *lane, ts_event event) {
  ts_host_lane *l = host(lane);
  ts_entry e;
  e.task = NULL;
  e.span = "wait";
  e.event = event;
  e.mark = ts_trace_mark_now();
  return l->has_thread ? enqueue(l, &e, 0) : run_now(l, &e);
}

static ts_event record(ts_lane *lane) {
  ts_host_lane *l = host(lane);
  pthread_mutex_lock(&l->lock);
  ts_event event = {lane, l->submitted};
  pthread_mutex_unlock(&l->lock);
  return event;
}

static ts_err sync_event(ts_event event) {
  ts_host_lane *l = host(event.lane);
  ts_err err = block(event, deadline(l));
  return err != TS_OK ? err : fault_of(l, true);
}

static bool done(ts_event event) {
  return atomic_load(&host(event.lane)->done) >= event.seq;
}

typedef struct ts_copy {
  void *dst;
  const void *src;
  size_t bytes;
} ts_copy;

static ts_err copy_task(void *arg, ts_lane *lane) {
  (void)lane;
  const ts_copy *c = arg;
  memcpy(c->dst, c->src, c->bytes);
  return TS_OK;
}

static ts_err copy(ts_lane *lane, const char *span, void *dst, const void *src,
                   size_t bytes) {
  ts_copy c = {dst, src, bytes};
  return submit(lane, span, copy_task, &c, sizeof c);
}

static ts_err start_thread(ts_host_lane *l) {
  TS_DO(grow(l));
  if (pthread_create(&l->thread, NULL, work, l) != 0)
    return ts_fail(TS_ERR_NOMEM, "no thread for lane \"%s\"", l->base.name);
  l->has_thread = true;
  return TS_OK;
}

static void lane_destroy(ts_lane *lane) {
  ts_host_lane *l = host(lane);
  if (l->has_thread) {
    pthread_mutex_lock(&l->lock);
    l->stop = true;
    pthread_cond_signal(&l->more);
    pthread_mutex_unlock(&l->lock);
    pthread_join(l->thread, NULL);
  }
  pthread_mutex_destroy(&l->lock);
  pthread_cond_destroy(&l->more);
  pthread_cond_destroy(&l->progress);
  ts_mem_free_all(l->ring, l);
}

static ts_err lane_create(ts_device *d, ts_lane **out, const char *name,
                          ts_lane_kind kind) {
  ts_host_lane *l;
  pthread_condattr_t attr;
  ts_err err = ts_mem_alloc(&l, sizeof *l, TS_TAG_MISC);
  if (err != TS_OK) return err;
  l->base = (ts_lane){.device = d, .name = name, .kind = kind, .row = -1};
  pthread_condattr_init(&attr);
  pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
  pthread_mutex_init(&l->lock, NULL);
  pthread_cond_init(&l->more, NULL);
  pthread_cond_init(&l->progress, &attr);
  pthread_condattr_destroy(&attr);
  if (d->options.serial && kind == TS_LANE_COMPUTE)
    omp_set_num_threads(d->options.n_threads);
  if (!d->options.serial && kind != TS_LANE_COMM) err = start_thread(l);
  if (err != TS_OK) {
    lane_destroy(&l->base);
    return err;
  }
  *out = &l->base;
  return TS_OK;
}

static void destroy(ts_device *d) {
  ts_mem_free(d);
}

ts_err ts_device_host_create(ts_device **out, const ts_device_options *o) {
  static const ts_device_ops ops = {.name = "host",
                                    .destroy = destroy,
                                    .alloc = ts_host_alloc,
                                    .free = ts_host_free,
                                    .range_create = ts_host_range_create,
                                    .range_give = ts_host_range_give,
                                    .range_destroy = ts_host_range_destroy,
                                    .lane_create = lane_create,
                                    .lane_destroy = lane_destroy,
                                    .submit = submit,
                                    .record = record,
                                    .wait = wait_event,
                                    .sync = sync_event,
                                    .done = done,
                                    .copy = copy,
                                    .error = lane_error,
                                    .watch = watch};
  ts_device *d;
  TS_DO(ts_mem_alloc(&d, sizeof *d, TS_TAG_MISC));
  d->ops = &ops;
  d->options = *o;
  if (d->options.n_threads < 1) d->options.n_threads = 1;
  *out = d;
  return TS_OK;
}
