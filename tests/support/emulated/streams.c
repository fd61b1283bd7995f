/* streams.c - streams as threads with queues, events as numbers.  One lock for
 * all: what counts is order. */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/emulated/runtime.h"

#define lock ts_emulated_lock
#define counts ts_emulated_counted
pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* A stream is, or an event was reached. */
static pthread_cond_t idle = PTHREAD_COND_INITIALIZER;
ts_emulated_counts counts;
static struct CUstream_st *all, *held, *newest, *by_default;
static bool faulty;
static _Thread_local cudaError_t last_error;

cudaError_t ts_answer(cudaError_t e) {
  if (e == cudaSuccess && faulty) e = cudaErrorIllegalAddress;
  if (e != cudaSuccess) last_error = e;
  return e;
}

cudaError_t cudaPeekAtLastError(void) {
  return last_error;
}

cudaError_t cudaGetLastError(void) {
  const cudaError_t e = last_error;
  last_error = cudaSuccess;
  return e;
}

/* Streams look again whether they can go on: those that wait for an event, or
 * all. */
static void wake(bool waiting) {
  for (struct CUstream_st *s = all; s; s = s->older)
    if (!waiting || (s->first && s->first->kind == WAIT))
      pthread_cond_signal(&s->go);
}

void *ts_emulated_stream(void) {
  return newest;
}

void ts_emulated_hold(void *stream) {
  pthread_mutex_lock(&lock);
  held = stream;
  wake(false);
  pthread_cond_broadcast(&idle);
  pthread_mutex_unlock(&lock);
}

void ts_device_fails(void) {
  pthread_mutex_lock(&lock);
  faulty = true;
  wake(false);
  pthread_cond_broadcast(&idle);
  pthread_mutex_unlock(&lock);
}

void ts_emulated_heal(void) {
  pthread_mutex_lock(&lock);
  faulty = false;
  pthread_mutex_unlock(&lock);
}

void ts_emulated_drain(void *stream) {
  const struct CUstream_st *s = stream;
  pthread_mutex_lock(&lock);
  while (s->first) pthread_cond_wait(&idle, &lock);
  pthread_mutex_unlock(&lock);
}

/* ---- work ---------------------------------------------------------------- */

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void ts_work_do(const ts_work *w) {
  if (w->kind == COPY)
    memmove(w->dst, w->src, w->bytes);
  else if (w->kind == SET)
    ts_memory_set(w->dst, w->value, w->bytes);
  else if (w->kind == LAUNCH)
    ts_launch_run(w->launch);
}

void ts_work_end(const ts_work *w) {
  if (w->launch) ts_launch_drop(w->launch);
  if (w->run) ts_graph_drop(w->run);
}

/* Under lock, but for what takes time. */
static void execute(const ts_work *w) {
  switch (w->kind) {
  case COPY:
  case SET:
  case LAUNCH:
    ts_look(w, false);
    pthread_mutex_unlock(&lock);
    ts_work_do(w);
    pthread_mutex_lock(&lock);
    break;
  case GRAPH:
    counts.graphs++;
    pthread_mutex_unlock(&lock);
    ts_graph_run(w->run);
    pthread_mutex_lock(&lock);
    break;
  case RECORD:
    w->event->reached = w->number;
    w->event->time = now();
    wake(true);
    pthread_cond_broadcast(&idle);
    break;
  case FREE:
    ts_memory_give_back(w->dst);
    break;
  case FAULT:
    faulty = true;
    wake(false);
    pthread_cond_broadcast(&idle);
    break;
  case WAIT:
    break;
  }
}

static bool ready(const struct CUstream_st *s, const ts_work *w) {
  return s != held &&
         (w->kind != WAIT || w->event->reached >= w->number || faulty);
}

static void *serve(void *arg) {
  struct CUstream_st *s = arg;
  pthread_mutex_lock(&lock);
  for (;;) {
    ts_work *w = s->first;
    if (!w && s->stop) break;
    if (!w || !ready(s, w)) {
      pthread_cond_wait(&s->go, &lock);
      continue;
    }
    if (!faulty || w->kind == FREE || w->kind == RECORD) execute(w);
    s->first = w->next;
    if (!s->first) s->last = NULL;
    ts_work_end(w);
    free(w);
    if (!s->first) pthread_cond_broadcast(&idle);
  }
  pthread_mutex_unlock(&lock);
  return NULL;
}

/* ---- streams ------------------------------------------------------------- */

static struct CUstream_st *start(void) {
  struct CUstream_st *s = calloc(1, sizeof *s);
  if (!s || pthread_cond_init(&s->go, NULL) != 0 ||
      pthread_create(&s->thread, NULL, serve, s) != 0)
    abort();
  s->older = all;
  all = s;
  return s;
}

/* Once anybody uses it; no other stream waits for it. */
static struct CUstream_st *default_stream(void) {
  pthread_mutex_lock(&lock);
  counts.by_default++;
  if (!by_default) by_default = start();
  pthread_mutex_unlock(&lock);
  return by_default;
}

void ts_emulated_drop(void *stream) {
  struct CUstream_st *s = stream;
  pthread_mutex_lock(&lock);
  if (s != held) abort(); /* it is at work */
  while (s->first) {
    ts_work *w = s->first;
    s->first = w->next;
    ts_work_end(w);
    free(w);
  }
  s->last = NULL;
  held = NULL;
  wake(false);
  pthread_cond_broadcast(&idle);
  pthread_mutex_unlock(&lock);
}

/* Under lock. */
static void append(struct CUstream_st *s, const ts_work *work) {
  ts_work *w = malloc(sizeof *w);
  if (!w) abort();
  *w = *work;
  w->next = NULL;
  if (s->last)
    s->last->next = w;
  else
    s->first = w;
  s->last = w;
  pthread_cond_signal(&s->go);
}

cudaError_t ts_enqueue(cudaStream_t s, ts_work w) {
  bool done;
  if (!s) s = default_stream();
  pthread_mutex_lock(&lock);
  ts_look(&w, true);
  cudaError_t e = ts_capture(s, &w, &done);
  if (done) {
    pthread_mutex_unlock(&lock);
    return ts_answer(e);
  }
  if (w.kind == RECORD) w.number = ++w.event->recorded;
  if (w.kind == WAIT) w.number = w.event->recorded;
  if (w.kind == RECORD && !s->first && s != held)
    execute(&w); /* at once, as by a device that is never busy elsewhere */
  else
    append(s, &w);
  e = ts_answer(cudaSuccess);
  pthread_mutex_unlock(&lock);
  return e;
}

void ts_emulated_fault(void *stream) {
  (void)ts_enqueue(stream, (ts_work){.kind = FAULT});
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags) {
  if (flags != cudaStreamNonBlocking) return ts_answer(cudaErrorInvalidValue);
  pthread_mutex_lock(&lock);
  counts.streams++;
  *out = newest = start();
  pthread_mutex_unlock(&lock);
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *out, unsigned flags,
                                         int priority) {
  if (priority > 0 || priority < -5) return ts_answer(cudaErrorInvalidValue);
  return cudaStreamCreateWithFlags(out, flags);
}

cudaError_t cudaStreamDestroy(cudaStream_t s) {
  pthread_mutex_lock(&lock);
  s->stop = true;
  counts.streams--;
  struct CUstream_st **at = &all;
  while (*at != s) at = &(*at)->older;
  *at = s->older;
  pthread_cond_signal(&s->go);
  pthread_mutex_unlock(&lock);
  pthread_join(s->thread, NULL);
  pthread_cond_destroy(&s->go);
  free(s);
  return cudaSuccess;
}

void ts_capture_ended(const struct CUgraph_st *g) {
  for (struct CUstream_st *s = all; s; s = s->older)
    if (s->front.graph == g) s->front = (ts_front){0};
}

cudaError_t cudaStreamSynchronize(cudaStream_t s) {
  if (!s) s = default_stream();
  pthread_mutex_lock(&lock);
  if (s->front.graph)
    ts_capture_spoil(s->front.graph, cudaErrorStreamCaptureUnsupported);
  while (s->first) pthread_cond_wait(&idle, &lock);
  const cudaError_t e = ts_answer(cudaSuccess);
  pthread_mutex_unlock(&lock);
  return e;
}

static bool busy(void) {
  for (const struct CUstream_st *s = all; s; s = s->older)
    if (s->first && s != held) return true;
  return false;
}

void ts_streams_settle(void) {
  while (busy() && !faulty) pthread_cond_wait(&idle, &lock);
}

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t bytes,
                            cudaMemcpyKind kind, cudaStream_t s) {
  if ((unsigned)kind > cudaMemcpyDefault)
    return ts_answer(cudaErrorInvalidValue);
  return ts_enqueue(
      s, (ts_work){.kind = COPY, .dst = dst, .src = src, .bytes = bytes});
}

cudaError_t cudaMemsetAsync(void *dst, int value, size_t bytes,
                            cudaStream_t s) {
  return ts_enqueue(
      s, (ts_work){.kind = SET, .dst = dst, .value = value, .bytes = bytes});
}

/* Small: a row each. */
cudaError_t cudaMemset2DAsync(void *dst, size_t pitch, int value, size_t width,
                              size_t height, cudaStream_t s) {
  if (width > pitch) return ts_answer(cudaErrorInvalidValue);
  for (size_t i = 0; i < height; i++)
    (void)cudaMemsetAsync((char *)dst + i * pitch, value, width, s);
  return ts_answer(cudaSuccess);
}

/* ---- events -------------------------------------------------------------- */

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags) {
  struct CUevent_st *e = calloc(1, sizeof *e);
  if (!e) abort();
  e->timed = !(flags & cudaEventDisableTiming);
  pthread_mutex_lock(&lock);
  if (++counts.events > counts.events_most) counts.events_most = counts.events;
  pthread_mutex_unlock(&lock);
  *out = e;
  return cudaSuccess;
}

static struct CUevent_st *destroyed; /* under the lock */

/* Its memory stays: a stream may not have come to its record or its wait yet,
 * as CUDA allows. */
cudaError_t cudaEventDestroy(cudaEvent_t e) {
  pthread_mutex_lock(&lock);
  e->next = destroyed;
  destroyed = e;
  counts.events--;
  pthread_mutex_unlock(&lock);
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s) {
  return ts_enqueue(s, (ts_work){.kind = RECORD, .event = e});
}

cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned flags) {
  if (flags) return ts_answer(cudaErrorInvalidValue);
  return ts_enqueue(s, (ts_work){.kind = WAIT, .event = e});
}

/* Under lock.  Who asks for one event so often does nothing else: its pauses
 * would take a third of the time of the threads that do the work.  Some asking
 * in between still finds it as it is. */
static void wait_some(cudaEvent_t e) {
  enum { OFTEN = 50, WAIT_NS = 1000000, SECOND_NS = 1000000000 };
  static _Thread_local cudaEvent_t last;
  static _Thread_local int n_asked;
  struct timespec end;
  n_asked = e == last ? n_asked + 1 : 0;
  last = e;
  if (n_asked < OFTEN || e->captured) return;
  clock_gettime(CLOCK_REALTIME, &end);
  end.tv_nsec += WAIT_NS;
  end.tv_sec += end.tv_nsec / SECOND_NS;
  end.tv_nsec %= SECOND_NS;
  while (e->reached < e->recorded && !faulty)
    if (pthread_cond_timedwait(&idle, &lock, &end) != 0) break;
}

cudaError_t cudaEventQuery(cudaEvent_t e) {
  pthread_mutex_lock(&lock);
  wait_some(e);
  const bool reached = e->reached >= e->recorded;
  const cudaError_t a =
      e->captured
          ? ts_capture_spoil(e->front.graph, cudaErrorCapturedEvent)
          : ts_answer(reached || faulty ? cudaSuccess : cudaErrorNotReady);
  pthread_mutex_unlock(&lock);
  return a;
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t a, cudaEvent_t b) {
  pthread_mutex_lock(&lock);
  const bool ready_both = a->reached && b->reached &&
                          a->reached == a->recorded &&
                          b->reached == b->recorded;
  *ms = (float)(1e3 * (b->time - a->time));
  const cudaError_t e =
      ts_answer(!a->timed || !b->timed ? cudaErrorInvalidResourceHandle
                : ready_both           ? cudaSuccess
                                       : cudaErrorNotReady);
  pthread_mutex_unlock(&lock);
  return e;
}
