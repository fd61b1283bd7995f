/* serve_bench.h - what `tessera serve-bench` scores: batches for a model, and
 * files of them.  All of it is Local. */
#pragma once

#include "commands/commands.h"
#include "serve/tessera_serve.h"

enum { TS_SERVE_BATCHES = 16 }; /* used in turn */

/* Batches of N samples, of N_IDS ids a feature and sample. */
typedef struct ts_serve_inputs {
  tserve_model *model;
  int32_t n, n_ids;
  double alpha; /* of the power law; 0: uniform */
  tserve_batch batch[TS_SERVE_BATCHES];
  tserve_bags *bags; /* (batches, features) */
  int64_t *ids;      /* (batches, features, n, n_ids) */
  int64_t *offsets;  /* (n + 1) of each bag */
  float *weights;    /* as ids, in [0.5, 1.5): tables without leave them */
  float *dense;      /* (batches, n, n_dense) in [0, 1) */
  float *out;        /* (batches, n, n_outputs), for dump */
} ts_serve_inputs;

/* The batches of N samples; what is not set above is. */
ts_err ts_serve_inputs_draw(ts_serve_inputs *);
/* Scores them and writes FOLDER/ids_N.npy, weights_N, dense_N and out_N with
 * the shapes above; ids and weights of one table after the other. */
ts_err ts_serve_inputs_dump(ts_serve_inputs *, const char *folder);
void ts_serve_inputs_free(ts_serve_inputs *);

/* The code of a tserve_ function, and its message, as ours. */
ts_err ts_serve_told(int code);
