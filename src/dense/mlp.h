/* mlp.h - layers of linear + ReLU, one parameter pair each.  In bf16
 * activations stay bf16 from layer to layer; the last one's are f32.
 * Functions are Local unless they say Collective or Enqueues. */
#pragma once

#include "dense/hooks.h"
#include "dense/linear.h"

typedef struct ts_mlp ts_mlp;

typedef struct ts_mlp_spec {
  int32_t n_in, in_stride;
  const int64_t *sizes; /* (n_layers) outputs */
  int32_t n_layers;
  bool last_linear; /* no ReLU on the last layer */
  /* Makes the parameter TAIL ("weight", "bias") of layer I, with values uniform
   * in +-BOUND. */
  ts_err (*param)(void *arg, ts_param **, int32_t i, bool last,
                  const char *tail, int32_t rows, int32_t cols, double bound);
  void *arg;
  ts_precision precision;
  bool x_half; /* x and dx are of bf16, as ts_linear_spec has it */
  int32_t batch_max;
  bool varies; /* the same */
  bool need_dx;
  const char *engine;
  const ts_kernels *kernels; /* as ts_linear_spec has them */
} ts_mlp_spec;

ts_err ts_mlp_create(ts_mlp **, const ts_mlp_spec *, ts_lane *);
void ts_mlp_destroy(ts_mlp *);
/* *Y = the last layer's activations (batch, last size), owned by the MLP,
 * valid until the next forward.  X must stay until backward.  Enqueues. */
ts_err ts_mlp_forward(ts_mlp *, float **y, const void *x, int32_t batch,
                      const ts_layer_hooks *, ts_lane *);
/* DY is overwritten.  dx (batch, in_stride) or NULL.  Bias and weight of each
 * layer are ready in the reverse of creation.  Enqueues. */
ts_err ts_mlp_backward(ts_mlp *, void *dx, float *dy, int32_t batch,
                       const ts_layer_hooks *, ts_lane *);
