/* span.cu - ranges for profilers, and the device's times for the trace.
 *
 * Ranges are NVTX's, in the domain "tessera", and cost nothing while no
 * profiler is attached.  Times are taken only while the trace is on: between
 * two events of the stream, read once both are done.
 *
 * CUDA measures from event to event, in milliseconds and single precision.  So
 * times count from an anchor: an event whose time on ts_now's clock is known,
 * and which is renewed each second (after which a float's last bit is less than
 * 0.1 us).  A span that can't be timed is left out of the trace: no run fails
 * for that. */
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtCudaRt.h>
#include <string.h>

#include "cuda/runtime/lane.h"

extern "C" {
#include "runtime/clock.h"
}

typedef struct ts_cuda_anchor {
  cudaEvent_t event;
  double time; /* of ts_now */
  int users;   /* timings; and 1 while it is the newest */
} ts_cuda_anchor;

enum { ANCHOR_TRIES = 5 };

/* Seconds: how long an anchor is good, how long the host waits for the first
 * and for another one, how much of its time may be unknown then. */
static const double ANCHOR_AGE = 1, FIRST_WAIT = 0.5, ANCHOR_WAIT = 2e-3,
                    ANCHOR_DOUBT = 100e-6;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of these */
static nvtxDomainHandle_t domain;
static ts_cuda_timing *spare;
static ts_cuda_anchor *newest;
static cudaStream_t clock_stream;
static double asked = -1e9; /* when an anchor was last tried */

/* ---- ranges -------------------------------------------------------------- */

void ts_cuda_name_stream(cudaStream_t stream, const char *name) {
  nvtxNameCudaStreamA(stream, name);
}

static nvtxDomainHandle_t our_domain(void) {
  pthread_mutex_lock(&lock);
  if (!domain) domain = nvtxDomainCreateA("tessera");
  const nvtxDomainHandle_t d = domain;
  pthread_mutex_unlock(&lock);
  return d;
}

static void range_push(const char *name) {
  nvtxEventAttributes_t a;
  memset(&a, 0, sizeof a);
  a.version = NVTX_VERSION;
  a.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  a.messageType = NVTX_MESSAGE_TYPE_ASCII;
  a.message.ascii = name;
  (void)nvtxDomainRangePushEx(our_domain(), &a);
}

/* ---- anchors; all under lock --------------------------------------------- */

static void anchor_give(ts_cuda_anchor *a) {
  if (!a || --a->users > 0) return;
  (void)ts_cuda_ok(cudaEventDestroy(a->event));
  ts_mem_free(a);
}

/* Records A on a stream that has nothing else to do and waits for it, but not
 * for long: the device may be full.  *DOUBT: seconds in which it was
 * reached. */
static bool anchor_try(ts_cuda_anchor *a, double *doubt) {
  cudaError_t e;
  double t1;
  const double t0 = ts_now(), wait = newest ? ANCHOR_WAIT : FIRST_WAIT;
  if (!ts_cuda_ok(cudaEventRecord(a->event, clock_stream))) return false;
  do {
    e = cudaEventQuery(a->event);
    t1 = ts_now();
  } while (e == cudaErrorNotReady && t1 - t0 < wait);
  (void)cudaGetLastError(); /* or a launch takes "not ready" for its own */
  *doubt = t1 - t0;
  a->time = t0 + *doubt / 2;
  return ts_cuda_ok(e);
}

/* A thread that lost its CPU meanwhile tries again. */
static bool anchor_set(ts_cuda_anchor *a, double *doubt) {
  bool set = true;
  if (!clock_stream && !ts_cuda_ok(cudaStreamCreateWithFlags(
                           &clock_stream, cudaStreamNonBlocking)))
    return false;
  *doubt = 1;
  for (int i = 0; i < ANCHOR_TRIES && set && *doubt > ANCHOR_DOUBT; i++)
    set = anchor_try(a, doubt);
  return set;
}

static void anchor_renew(void) {
  ts_cuda_anchor *a = NULL;
  double doubt = 0;
  if (ts_mem_alloc(&a, sizeof *a, TS_TAG_MISC) != TS_OK) {
    ts_err_clear();
    return;
  }
  a->users = 1;
  if (!ts_cuda_ok(cudaEventCreateWithFlags(&a->event, cudaEventDefault))) {
    ts_mem_free(a);
    return;
  }
  if (!anchor_set(a, &doubt)) {
    anchor_give(a);
  } else if (newest && doubt > ANCHOR_DOUBT) {
    /* The old one will do for a second more. */
    anchor_give(a);
  } else {
    anchor_give(newest);
    newest = a;
  }
}

static ts_cuda_anchor *anchor_take(void) {
  const double now = ts_now();
  if (now - asked > ANCHOR_AGE) {
    asked = now;
    anchor_renew();
  }
  if (newest) newest->users++;
  return newest;
}

/* ---- timings ------------------------------------------------------------- */

static void timing_free(ts_cuda_timing *t) {
  if (t->begin) (void)ts_cuda_ok(cudaEventDestroy(t->begin));
  if (t->end) (void)ts_cuda_ok(cudaEventDestroy(t->end));
  ts_mem_free(t);
}

static ts_cuda_timing *timing_create(void) {
  ts_cuda_timing *t = NULL;
  if (ts_mem_alloc(&t, sizeof *t, TS_TAG_MISC) != TS_OK) {
    ts_err_clear();
    return NULL;
  }
  if (ts_cuda_ok(cudaEventCreateWithFlags(&t->begin, cudaEventDefault)) &&
      ts_cuda_ok(cudaEventCreateWithFlags(&t->end, cudaEventDefault)))
    return t;
  timing_free(t);
  return NULL;
}

static void timing_give(ts_cuda_timing *t) {
  pthread_mutex_lock(&lock);
  anchor_give(t->anchor);
  t->anchor = NULL;
  t->next = spare;
  spare = t;
  pthread_mutex_unlock(&lock);
}

static ts_cuda_timing *timing_take(void) {
  pthread_mutex_lock(&lock);
  ts_cuda_timing *t = spare;
  if (t)
    spare = t->next;
  else
    t = timing_create();
  if (t) {
    t->next = NULL;
    t->anchor = anchor_take();
  }
  pthread_mutex_unlock(&lock);
  return t;
}

static void write_span(ts_cuda_timing *t) {
  float at = 0, took = 0;
  if (!ts_cuda_ok(cudaEventElapsedTime(&at, t->anchor->event, t->begin)) ||
      !ts_cuda_ok(cudaEventElapsedTime(&took, t->begin, t->end)))
    return;
  t->span.t0 = t->anchor->time + 1e-3 * (double)at;
  t->span.t1 = t->span.t0 + 1e-3 * (double)took;
  if (t->booked) ts_timer_add(t->span.name, 1e-3 * (double)took);
  if (t->traced) ts_trace_span_late(&t->span);
}

void ts_cuda_spans_read(ts_cuda_lane *l) {
  while (l->first) {
    ts_cuda_timing *t = l->first;
    const cudaError_t e = cudaEventQuery(t->end);
    if (ts_cuda_ok(e))
      write_span(t);
    else if (e == cudaErrorNotReady)
      return;
    l->first = t->next;
    if (!l->first) l->last = NULL;
    timing_give(t);
  }
}

void ts_cuda_spans_drop(ts_cuda_lane *l) {
  ts_cuda_spans_read(l);
  while (l->first) {
    ts_cuda_timing *t = l->first;
    l->first = t->next;
    timing_give(t);
  }
  l->last = NULL;
}

/* No lane is there any more: spare timings and the anchor hold memory that is
 * counted. */
void ts_cuda_spans_end(void) {
  pthread_mutex_lock(&lock);
  while (spare) {
    ts_cuda_timing *t = spare;
    spare = t->next;
    timing_free(t);
  }
  anchor_give(newest);
  newest = NULL;
  asked = -1e9;
  pthread_mutex_unlock(&lock);
}

ts_cuda_span ts_cuda_span_begin(ts_lane *lane, const char *name) {
  ts_cuda_span s = {name, NULL};
  range_push(name);
  const bool traced = ts_trace_on() && lane->row >= 0;
  if ((!traced && !ts_clock_phases_on()) || ts_graph_now()) return s;
  s.timing = timing_take();
  if (s.timing && s.timing->anchor &&
      ts_cuda_ok(cudaEventRecord(s.timing->begin, ts_cuda_stream(lane)))) {
    s.timing->traced = traced;
    s.timing->booked = ts_clock_phases_on();
    return s;
  }
  if (s.timing) timing_give(s.timing);
  s.timing = NULL;
  return s;
}

static void append(ts_cuda_lane *l, ts_cuda_timing *t) {
  pthread_mutex_lock(&l->lock);
  if (l->last)
    l->last->next = t;
  else
    l->first = t;
  l->last = t;
  ts_cuda_spans_read(l);
  pthread_mutex_unlock(&l->lock);
}

void ts_cuda_span_end(ts_lane *lane, ts_cuda_span s, const ts_span *what) {
  ts_cuda_timing *t = s.timing;
  (void)nvtxDomainRangePop(our_domain());
  if (!t) return;
  t->span = *what;
  t->span.row = lane->row;
  t->span.name = s.name;
  t->span.mark = ts_trace_mark_now();
  if (ts_cuda_ok(cudaEventRecord(t->end, ts_cuda_stream(lane))))
    append(ts_cuda_lane_of(lane), t);
  else
    timing_give(t);
}
