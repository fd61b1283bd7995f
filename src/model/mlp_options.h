/* mlp_options.h - an mlp whose layers are more than linear and ReLU: linear,
 * norm, activation, dropout, residual, each where it is wanted.
 *
 * Functions are Local unless they say Collective or Enqueues. */
#pragma once

#include "model/activation.h"
#include "model/row_norm.h"

/* Values of the key norm, in the order of its choices. */
typedef enum {
  TS_MLP_NONE,
  TS_MLP_BATCH,
  TS_MLP_LAYER,
  TS_MLP_RMS
} ts_mlp_norm;

/* A layer's options, of kind mlp. */
typedef struct ts_mlp_options {
  ts_ints units;
  int activation, last_activation; /* last: 0 the same, else one more */
  int norm;
  double dropout;
  bool residual;
} ts_mlp_options;

/* Nothing but linear and ReLU, the last one's left out or not: ts_mlp does it.
 */
bool ts_mlp_is_plain(const ts_mlp_options *);

typedef struct ts_mlp_full ts_mlp_full;

/* Sets out[0].x.  Collective where it has batch norm. */
ts_err ts_mlp_full_create(ts_mlp_full **, ts_layer *, ts_lane *);
void ts_mlp_full_destroy(ts_mlp_full *); /* Collective, likewise */
/* As a kind's.  Enqueue. */
ts_err ts_mlp_full_forward(ts_mlp_full *, const ts_layer *,
                           const ts_layer_run *);
ts_err ts_mlp_full_backward(ts_mlp_full *, const ts_layer *,
                            const ts_layer_run *);
