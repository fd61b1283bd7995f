/* row_norm.h - norms of rows with their parameters, a part of layers.
 *
 * Functions are Local unless they say Enqueues.  Who calls them acquires and
 * releases the parameters, and says that gradients are ready. */
#pragma once

#include "model/layer_ops.h"

typedef struct ts_row_norm {
  ts_param *p[2]; /* weight, bias; NULL: there is none */
  ts_norm_kind kind;
  int32_t n, rows_each;
  float eps;
} ts_row_norm;

typedef struct ts_row_norm_spec {
  ts_norm_kind kind;
  int32_t i;            /* names are NAME.i.PREFIXweight, and so on */
  const char *prefix;   /* "", "norm." */
  int32_t n, rows_each; /* a sample has ROWS_EACH rows of N */
  bool affine;          /* the parameters are there, where the kind has some */
  double eps;
} ts_row_norm_spec;

/* As PyTorch's LayerNorm and RMSNorm. */
#define TS_LAYER_NORM_EPS "1e-5"
#define TS_RMS_NORM_EPS "1.1920928955078125e-7"

ts_err ts_row_norm_create(ts_row_norm *, ts_layer *, const ts_row_norm_spec *);
/* x, y and their gradients (batch rows_each, n); dx may be dy.  Enqueue. */
ts_err ts_row_norm_forward(const ts_row_norm *, const ts_layer *,
                           const ts_layer_run *, float *y, const float *x);
ts_err ts_row_norm_backward(const ts_row_norm *, const ts_layer *,
                            const ts_layer_run *, float *dx, const float *dy,
                            const float *x);
