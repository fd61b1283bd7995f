/* wide.c - the linear part of a model: the sum of what it reads, and a bias. */
#include "model/layer_ops.h"

typedef struct ts_wide {
  ts_param *bias;
} ts_wide;

static ts_err shape(ts_layer *l) {
  return ts_layer_gives(l, NULL, ts_vector_of(1));
}

static ts_err create(ts_layer *l, ts_lane *lane) {
  (void)lane;
  ts_wide *d = l->data;
  return ts_layer_param(l, &d->bias, 0, true, "bias", 1, 0, 0);
}

static ts_err forward(ts_layer *l, const ts_layer_run *r) {
  const ts_wide *d = l->data;
  const ts_value *x = l->in[0].value;
  const ts_contract_args sum = {.c = l->out[0].x,
                                .a = x->x,
                                .cs = {.b = 1},
                                .as = {.b = x->stride, .c = 1},
                                .n_b = r->batch,
                                .n_k = ts_shape_width(x->shape),
                                .n_h = 1,
                                .n_i = 1,
                                .n_j = 1,
                                .scale = 1};
  TS_DO(ts_run_contract(l, r, &sum));
  TS_DO(ts_layer_begin(r, d->bias, TS_FORWARD));
  TS_DO(ts_run_copy(l, r, l->out[0].x, 1, d->bias->w, 0, 1, true));
  return ts_layer_end(r, d->bias, TS_FORWARD);
}

static ts_err backward(ts_layer *l, const ts_layer_run *r) {
  ts_wide *d = l->data;
  const ts_input *in = &l->in[0];
  const ts_map_args spread = {.y = in->dx,
                              .a = l->out[0].dx,
                              .ys = {.b = in->value->stride, .c = 1},
                              .as = {.b = 1},
                              .n_b = r->batch,
                              .n_h = 1,
                              .n_i = 1,
                              .n_j = ts_shape_width(in->value->shape),
                              .op = TS_MAP_MULTIPLY,
                              .scale = 1};
  if (in->dx) TS_DO(ts_run_map(l, r, &spread));
  TS_DO(ts_layer_begin(r, d->bias, TS_BACKWARD));
  TS_DO(ts_run_bias_grad(l, r, d->bias->grad, l->out[0].dx, r->batch, 1, 1));
  TS_DO(ts_layer_gave(r, &d->bias, 1));
  return ts_layer_end(r, d->bias, TS_BACKWARD);
}

const ts_layer_ops ts_layer_wide = {
    .kind = "wide",
    .data_bytes = sizeof(ts_wide),
    .least = 1,
    .most = 1,
    .shape = shape,
    .create = create,
    .forward = forward,
    .backward = backward,
    .page = "y = b + the sum of all that it reads: of tables of dim 1\n"
            "(\"fields:wide\") the linear part of Wide & Deep and DeepFM\n"
            "\n"
            "  in    vectors or fields, side by side\n"
            "  out   (B, 1)\n"
            "  NAME.0.bias (1): 0\n"
            "  H. Cheng et al., \"Wide & Deep Learning for Recommender\n"
            "  Systems\", 2016\n"};
