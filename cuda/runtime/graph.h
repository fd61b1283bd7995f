/* graph.h - graphs of lanes (runtime/graph.h) for the other files of cuda/.
 * Functions are Local unless they say Collective or Enqueues. */
#pragma once

#include "cuda/runtime/notes.h"

ts_err ts_cuda_graph_create(ts_graph **, ts_lane *);
void ts_cuda_graph_destroy(ts_graph *);
ts_err ts_cuda_graph_begin(ts_graph *);
ts_err ts_cuda_graph_end(ts_graph *);

/* The lane is to wait for EVENT: *NOTED where that is the business of a graph
 * and done; else it is an ordinary wait. */
ts_err ts_cuda_graph_wait(ts_cuda_lane *, ts_event, bool *noted);

/* A position of the lane has been numbered: an open graph notes it down. */
ts_err ts_cuda_graph_recorded(ts_cuda_lane *, uint64_t seq);

/* The notes of the calling thread's open graph and the *LANE whose STREAM it
 * is; NULL: it does not take part in any. */
ts_notes *ts_cuda_graph_notes(cudaStream_t stream, ts_cuda_lane **lane);
/* A draft of these notes is the next piece of work; note: makes it, of DRAFT's
 * kind, lane and what, with BYTES of arguments at ARG. */
ts_err ts_cuda_graph_put(ts_note *draft);
ts_err ts_cuda_graph_note(ts_notes *, ts_note draft, const void *arg,
                          size_t bytes);

/* Where the calling thread's open graph begins, if STREAM takes part in it;
 * NULL: it does not. */
ts_lane *ts_cuda_graph_of(cudaStream_t stream);
/* How many graphs have begun: tells one's work from another's. */
uint64_t ts_cuda_graph_turn(void);

/* graph_memory.cu: ts_cuda_take and give where the stream's work is noted down:
 * memory of the lane that the graph begins on, the same each time.  false: not
 * of that kind. */
bool ts_cuda_graph_take(void **p, size_t bytes, ts_tag, cudaStream_t, ts_err *);
bool ts_cuda_graph_give(void *p, cudaStream_t);
void ts_cuda_graph_give_all(ts_lane *); /* with the lane */

/* ---- for graph.cu and graph_lanes.cu alone ------------------------------- */

enum { TS_GRAPH_LANES = 8, TS_GRAPH_BEFORE = 64 };

typedef struct ts_cuda_graph {
  ts_graph base;
  cudaGraph_t graph; /* that exec was made of: its nodes name those of exec */
  cudaGraphExec_t exec;
  uint64_t shape; /* of exec */
  ts_notes notes;
  bool replays;     /* since begin; else it is captured */
  bool known;       /* the notes are what exec does */
  int n_misses;     /* one after the other */
  cudaEvent_t mark; /* between its lanes */
  ts_cuda_lane
      *lane[TS_GRAPH_LANES];        /* that take part; it begins on the first */
  ts_event before[TS_GRAPH_BEFORE]; /* what the launch waits for */
  int n_lanes, n_before;
} ts_cuda_graph;

static inline ts_cuda_graph *ts_cuda_graph_as(ts_graph *g) {
  return (ts_cuda_graph *)g;
}

/* The calling thread's open graph, if it is one of the GPU's. */
ts_cuda_graph *ts_cuda_graph_open(void);
/* The lane takes part from here on; leave: none does any more. */
void ts_cuda_graph_enter(ts_cuda_graph *, ts_cuda_lane *);
void ts_cuda_graph_leave(ts_cuda_graph *);
