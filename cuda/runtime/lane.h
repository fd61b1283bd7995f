/* lane.h - a lane of the GPU; private to cuda/runtime.  All of it is Local. */
#pragma once

#include <pthread.h>

#include "cuda/runtime/cuda_impl.h"

extern "C" {
#include "cuda/runtime/event_ring.h"
}

/* A span on the device, between two CUDA events. */
typedef struct ts_cuda_timing {
  cudaEvent_t begin, end;
  struct ts_cuda_anchor *anchor;
  ts_span span;        /* times to be found */
  bool traced, booked; /* for the trace, for the timers */
  struct ts_cuda_timing *next;
} ts_cuda_timing;

typedef struct ts_cuda_lane {
  ts_lane base;
  cudaStream_t stream;
  pthread_mutex_t lock; /* of all that follows */
  ts_event_ring ring;
  const char *span; /* of the last task */
  ts_err_record fault;
  ts_cuda_timing *first, *last; /* not yet read, in order */
  ts_graph *graph;              /* that its work goes into; NULL: none */
} ts_cuda_lane;

static inline ts_cuda_lane *ts_cuda_lane_of(ts_lane *lane) {
  return (ts_cuda_lane *)lane;
}

/* device.cu: errors. fault: the lane's error, whose record becomes the
 * thread's. keep:  ERR, the calling thread's, becomes the lane's unless it has
 * one; returns the lane's, with its record; OK for OK. keep_quietly: for
 * callers that have no error to return; the thread has no more of a record than
 * before (ts_cuda_is_clean). device_fault: the error for a fault of the device;
 * under the lock. */
ts_err ts_cuda_lane_fault(ts_cuda_lane *);
ts_err ts_cuda_lane_keep(ts_cuda_lane *, ts_err);
void ts_cuda_lane_keep_quietly(ts_cuda_lane *, ts_err, bool was_clean);
ts_err ts_cuda_device_fault(const ts_cuda_lane *, cudaError_t);

/* events.cu: of the device's operations. */
extern const ts_event_calls ts_cuda_event_calls;
ts_event ts_cuda_event_record(ts_lane *);
bool ts_cuda_event_done(ts_event);
ts_err ts_cuda_event_sync(ts_event);
ts_err ts_cuda_event_wait(ts_lane *, ts_event);
/* The stream waits for the CUDA event that stands for the event now. */
ts_err ts_cuda_stream_wait(ts_cuda_lane *, ts_event);

/* span.cu: what has been timed and is done goes into the trace.
 * Under the lane's lock. */
void ts_cuda_spans_read(ts_cuda_lane *);
void ts_cuda_spans_drop(ts_cuda_lane *); /* what is left, at the end */
void ts_cuda_spans_end(void);            /* with the device */
void ts_cuda_name_stream(cudaStream_t, const char *name);
