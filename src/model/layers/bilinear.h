/* bilinear.h - what kinds bilinear and outer_product share; bilinear.c and
 * outer_product.c alone.
 * Functions are Local unless they say Collective or Enqueues. */
#pragma once

#include "model/layer_ops.h"

typedef struct ts_bilinear {
  ts_param *w;  /* (matrices d, d); of other outer products (pairs, d or 1) */
  int form;     /* of bilinear */
  bool sums;    /* over the vectors: of outer_product */
  int32_t f, d; /* F, d */
  int64_t pairs, nt; /* floats of a sample's t */
  float *t, *dt;     /* (batch_max, nt) */
} ts_bilinear;

/* The shape of one number a pair, of forms with a matrix for each. */
ts_err ts_bilinear_sums_shape(ts_layer *);
ts_err ts_bilinear_create(ts_layer *, ts_lane *);
/* Enqueue. */
ts_err ts_bilinear_forward(ts_layer *, const ts_layer_run *);
ts_err ts_bilinear_backward(ts_layer *, const ts_layer_run *);
