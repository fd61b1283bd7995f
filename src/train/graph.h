/* graph.h - steps as graphs of the compute lane (runtime/graph.h), as far as
 * run.graph, the device and what a step is made of allow.  A note says why
 * not; where the host waits in the middle of steps, or their work is not the
 * same each time, they go on without.
 * Functions are Local unless they say Collective or Enqueues. */
#pragma once

#include "runtime/graph.h"
#include "train/trainer.h"

/* A step has one or two: from the lookup, and from the backward pass where
 * the host has something to do before that. */
typedef enum { TS_PART_FORWARD, TS_PART_BACKWARD, TS_STEP_PARTS } ts_step_part;

/* Nothing where a part is open already, or there are no graphs. */
ts_err ts_step_graph_begin(ts_trainer *, ts_step_part);
ts_err ts_step_graph_end(ts_trainer *);
/* Whether what has been enqueued since begin waits for end. */
bool ts_step_graph_is_open(void);
void ts_step_graph_destroy(ts_trainer *); /* before the lanes */
/* The counts of all graphs since the start. */
ts_graph_counts ts_step_graph_counts(const ts_trainer *);
/* Logs how the graphs went; nothing where there were none. */
void ts_step_graph_report(const ts_trainer *);
