/* graph.h - graphs of lanes (runtime/graph.h) for the other files of cuda/.
 * Functions are Local unless they say Collective or Enqueues. */
#ifndef TS_CUDA_GRAPH_H
#define TS_CUDA_GRAPH_H

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

#endif
