/* graph_impl.h - a graph of lanes; private to graph.cu and graph_lanes.cu.
 * All of it is Local. */
#ifndef TS_CUDA_GRAPH_IMPL_H
#define TS_CUDA_GRAPH_IMPL_H

#include "cuda/runtime/graph.h"

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

#endif
