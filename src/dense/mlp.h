/* mlp.h - layers of linear + ReLU, one parameter pair each. */
#ifndef TS_DENSE_MLP_H
#define TS_DENSE_MLP_H

#include "dense/linear.h"

typedef struct ts_mlp ts_mlp;

/* Called on the scheduling thread once the gradient of PARAM has been
 * enqueued on LANE. */
typedef struct ts_grad_hook {
  ts_err (*ready)(void *arg, ts_param *param, ts_lane *lane);
  void *arg;
} ts_grad_hook;

typedef struct ts_mlp_spec {
  int32_t n_in, in_stride;
  const int64_t *sizes; /* (n_layers) outputs */
  int32_t n_layers;
  bool last_linear; /* no ReLU on the last layer */
  /* Parameters of layer i are NAME.i.TAIL.{weight,bias}; of the last one
   * LAST_NAME.{weight,bias} where that is not NULL. */
  const char *name, *tail, *last_name;
  ts_precision precision;
  int32_t batch_max;
  bool need_dx;
  const char *engine;
} ts_mlp_spec;

/* Adds its parameters to PARAMS and initialises them from SEED. */
ts_err ts_mlp_create(ts_mlp **, const ts_mlp_spec *, ts_params *, uint64_t seed,
                     ts_lane *);
void ts_mlp_destroy(ts_mlp *);
/* *Y = the last layer's activations (batch, last size), owned by the MLP,
 * valid until the next forward.  X must stay until backward.  Enqueues. */
ts_err ts_mlp_forward(ts_mlp *, float **y, const float *x, int32_t batch,
                      ts_lane *);
/* DY is overwritten.  dx (batch, in_stride) or NULL.  Calls HOOK for bias and
 * weight of each layer, last layer first: the reverse of creation.  Enqueues.
 */
ts_err ts_mlp_backward(ts_mlp *, float *dx, float *dy, int32_t batch,
                       const ts_grad_hook *, ts_lane *);

#endif
