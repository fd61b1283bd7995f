/* lane.h - a lane of the GPU; private to device.cu, graph.cu and
 * span.cu. */
#ifndef TS_CUDA_LANE_H
#define TS_CUDA_LANE_H

#include <pthread.h>

#include "cuda/cuda_impl.h"

extern "C" {
#include "cuda/event_ring.h"
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

/* span.cu: what has been timed and is done goes into the trace.
 * Under the lane's lock. */
void ts_cuda_spans_read(ts_cuda_lane *);
void ts_cuda_spans_drop(ts_cuda_lane *); /* what is left, at the end */
void ts_cuda_spans_end(void);            /* with the device */
void ts_cuda_name_stream(cudaStream_t, const char *name);

#endif
