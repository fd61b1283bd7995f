/* scorer.h - one thread's memory for scoring with a state: its graph, run by
 * lanes that are this thread (serial), and arrays that grow.
 * Functions are Local. */
#pragma once

#include "model/graph.h"
#include "serve/inputs.h"

typedef struct ts_scorer ts_scorer;

/* Holds STATE.  N_MAX: samples that are scored at a time. */
ts_err ts_scorer_create(ts_scorer **, ts_serve_state *, int32_t n_max,
                        int32_t n_threads);
void ts_scorer_destroy(ts_scorer *);
const ts_serve_state *ts_scorer_state(const ts_scorer *);
const ts_config *ts_scorer_config(const ts_scorer *);

/* What is asked of a batch: predictions (n, n_outputs); of task TASK, over
 * items, the samples' vectors or those of items that layers make (n, dim). */
typedef enum {
  TS_SCORES,
  TS_SCORE_VECTORS,
  TS_SCORE_ITEM_VECTORS
} ts_score_what;

ts_err ts_scorer_run(ts_scorer *, const tserve_batch *, ts_score_what,
                     int32_t task, float *out);
