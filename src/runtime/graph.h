/* graph.h - work of lanes that is noted down and then started as a whole: on
 * GPUs a CUDA graph, which the device runs without gaps for launches.
 *
 * From begin to end what the calling thread submits to the graph's lane is
 * noted down, and so is the work of lanes that wait for it; end starts all of
 * it.  Tasks run at submission as ever, so their arguments may differ each
 * time.  Nothing is lost: where the host has to wait, or asks for what can't
 * be noted down, what there is so far is started at once and the rest follows
 * as if there were no graph (a cut).  An event of noted work is not done
 * before that; the thread that began must not ask for one in a loop.
 * Functions are Local unless they say Collective or Enqueues. */
#pragma once

#include "runtime/device.h"

typedef struct ts_graph ts_graph;

typedef struct ts_graph_counts {
  int64_t n_begun; /* of which n_cut ended early */
  int64_t n_cut;
  int64_t n_made;     /* executables built: a new sequence of work */
  int64_t n_updated;  /* captured again, for the last executable */
  int64_t n_replayed; /* nothing was captured; pieces that got new arguments: */
  int64_t n_renewed;
  int64_t n_nodes;     /* pieces of work of the last graph */
  int64_t extra_bytes; /* scratch that the lane's graphs keep */
  char why[160];       /* of the first cut; "" none */
} ts_graph_counts;

/* A graph of work that begins on LANE.  *OUT is NULL on devices that have none
 * (the host), or where submissions are waited for (run.lanes = "serial"); all
 * functions take that for a graph that is never open.  Destroyed before LANE,
 * after its work. */
ts_err ts_graph_create(ts_graph **, ts_lane *);
void ts_graph_destroy(ts_graph *);

/* Local; the calling thread's only one.  While the trace is on, or phases are
 * timed (runtime/clock.h), nothing is noted down: spans have times of their
 * own. */
ts_err ts_graph_begin(ts_graph *);
/* Starts the work, unless a cut has done so. */
ts_err ts_graph_end(ts_graph *);

/* Before the calling thread waits for a device, or does with it what can't be
 * noted down: starts what there is.  Nothing where no graph is open. */
ts_err ts_graph_cut(const char *why);
/* The calling thread's open graph, NULL: none. */
ts_graph *ts_graph_now(void);

ts_graph_counts ts_graph_counts_of(const ts_graph *);
