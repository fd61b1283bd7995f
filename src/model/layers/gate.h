/* gate.h - what the two forms of kind gate share; gate.c and gate_mask.c
 * alone.
 * Functions are Local unless they say Collective or Enqueues. */
#pragma once

#include "model/layer_ops.h"

enum { TS_GATE_CROSS, TS_GATE_MASK };

typedef struct ts_gate_options {
  int form;
  int32_t layers, units, hidden;
  bool norm;
} ts_gate_options;

/* A gated cross layer. */
typedef struct ts_gate_layer {
  ts_rows_linear cross, gate;
  float *t, *s, *g; /* (batch_max, n) C x + b, G x, sigmoid of that */
  float *y;         /* (batch_max, n); of the last one NULL: the output */
} ts_gate_layer;

typedef struct ts_gate {
  ts_gate_layer *layer;
  float *q, *ds, *dx0; /* (batch_max, n) */
  float *dx;           /* (batch_max, the input's stride) */
  /* mask */
  ts_rows_linear mask[3];
  ts_param *norm[2];        /* gain, bias; NULL: no norm */
  float *h, *m, *v, *t;     /* hidden, mask, x m, W v */
  float *dh, *dm, *dv, *de; /* de: where e is x */
} ts_gate;

/* The mask block's part of the ops. */
ts_err ts_gate_mask_create(ts_layer *, ts_lane *);
ts_err ts_gate_mask_forward(ts_layer *, const ts_layer_run *);
ts_err ts_gate_mask_backward(ts_layer *, const ts_layer_run *);
