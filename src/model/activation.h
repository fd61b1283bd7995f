/* activation.h - activations with what they keep, a part of layers.
 *
 * Functions are Local unless they say Enqueues.  Who calls them acquires and
 * releases the parameters, and says that gradients are ready. */
#pragma once

#include "model/batch_norm.h"

typedef enum {
  TS_ACTIVATION_LINEAR, /* none */
  TS_ACTIVATION_RELU,   /* .. TANH: in the order of ts_act_kind */
  TS_ACTIVATION_LEAKY,
  TS_ACTIVATION_PRELU,
  TS_ACTIVATION_GELU,
  TS_ACTIVATION_SILU,
  TS_ACTIVATION_SIGMOID,
  TS_ACTIVATION_TANH,
  TS_ACTIVATION_SOFTMAX, /* of a row */
  TS_ACTIVATION_DICE
} ts_activation_kind;
/* Values of a key of type CHOICE, in that order. */
#define TS_ACTIVATIONS                                                         \
  "linear|relu|leaky_relu|prelu|gelu|silu|sigmoid|tanh|softmax|dice"
/* For pages of help. */
#define TS_ACTIVATIONS_PAGE                                                    \
  "  leaky_relu: x or slope x; prelu: x or weight x, a weight a column,\n"     \
  "  0.25 at first; gelu: x Phi(x); silu: x sigmoid(x), as PyTorch's;\n"       \
  "  softmax: of a row, of a field's numbers where it reads fields;\n"         \
  "  dice: x (p + weight (1 - p)), p = sigmoid(batch norm of x without\n"      \
  "  weight and bias), weight 0 at first: DIN (G. Zhou et al., \"Deep\n"       \
  "  Interest Network for Click-Through Rate Prediction\", KDD 2018)\n"

typedef struct ts_activation {
  ts_activation_kind kind;
  int32_t n, rows_each;
  float slope;
  ts_param *weight;           /* (n) of prelu and dice */
  ts_batch_norm norm;         /* of dice */
  float *t, *p, *work, *more; /* of dice (batch_max, n) */
} ts_activation;

typedef struct ts_activation_spec {
  ts_activation_kind kind;
  int32_t i;            /* names are NAME.i.PREFIXweight, and so on */
  const char *prefix;   /* "", "activation." */
  int32_t n, rows_each; /* a sample has ROWS_EACH rows of N */
  double slope;         /* of leaky_relu */
} ts_activation_spec;

/* Collective where the kind is dice: ts_batch_norm_create. */
ts_err ts_activation_create(ts_activation *, ts_layer *,
                            const ts_activation_spec *);
void ts_activation_reset(ts_activation *);
/* y = act(x); y may not be x.  Enqueue. */
ts_err ts_activation_forward(ts_activation *, const ts_layer *,
                             const ts_layer_run *, ts_rows y, ts_rows x);
/* dx = of dy, which it may be where strides are equal; x and y as in
 * forward.  Writes weight->grad. */
ts_err ts_activation_backward(ts_activation *, const ts_layer *,
                              const ts_layer_run *, ts_rows dx, ts_rows dy,
                              ts_rows x);
