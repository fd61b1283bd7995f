/* graph.h - graphs of lanes (runtime/graph.h) for the other files of cuda/. */
#ifndef TS_CUDA_GRAPH_H
#define TS_CUDA_GRAPH_H

#include "cuda/lane.h"

/* device.cu.  The stream waits for what stands for EVENT now. */
ts_err ts_cuda_stream_wait(ts_cuda_lane *, ts_event);
/* Keeps ERR, the calling thread's, as the lane's, unless it has one; returns
 * the lane's. */
ts_err ts_cuda_lane_keep(ts_cuda_lane *, ts_err);

ts_err ts_cuda_graph_create(ts_graph **, ts_lane *);
void ts_cuda_graph_destroy(ts_graph *);
ts_err ts_cuda_graph_begin(ts_graph *);
ts_err ts_cuda_graph_end(ts_graph *);

/* The lane is to wait for EVENT: *NOTED where that is the business of a graph
 * and done; else it is an ordinary wait. */
ts_err ts_cuda_graph_wait(ts_cuda_lane *, ts_event, bool *noted);

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
