/* linear.c - y = x W^T + b. */
#include "model/layer_ops.h"

typedef struct ts_linear_options {
  int32_t units;
  bool bias;
} ts_linear_options;

static const ts_key keys[] = {
    {TS_SCOPE_LAYER, "units", TS_KEY_INT32, offsetof(ts_linear_options, units),
     NULL, "outputs", 1, 1000000, NULL, "width of its output"},
    {TS_SCOPE_LAYER, "bias", TS_KEY_BOOL, offsetof(ts_linear_options, bias),
     "true", "", 1, 0, NULL, "whether b is there"},
};

static ts_err shape(ts_layer *l) {
  const ts_linear_options *o = l->options;
  return ts_layer_gives(l, NULL, ts_vector_of(o->units));
}

static ts_err create(ts_layer *l, ts_lane *lane) {
  const ts_linear_options *o = l->options;
  const ts_value *x = l->in[0].value;
  const ts_rows_linear_spec s = {.n_in = ts_shape_width(x->shape),
                                 .last = true,
                                 .in_stride = x->stride,
                                 .n_out = o->units,
                                 .rows_each = 1,
                                 .bias = o->bias,
                                 .need_dx = l->in[0].dx != NULL};
  return ts_rows_linear_create(l->data, l, &s, lane);
}

static void destroy(ts_layer *l) {
  ts_rows_linear_reset(l->data);
}

static ts_err forward(ts_layer *l, const ts_layer_run *r) {
  return ts_rows_linear_forward(l->data, r, l->out[0].x, l->in[0].value->x);
}

static ts_err backward(ts_layer *l, const ts_layer_run *r) {
  return ts_rows_linear_backward(l->data, r, l->in[0].dx, l->out[0].dx,
                                 l->in[0].value->x, l->out[0].x);
}

const ts_layer_ops ts_layer_linear = {
    .kind = "linear",
    .tokens = TS_BY_ROW,
    .keys = keys,
    .n_keys = sizeof keys / sizeof *keys,
    .options_bytes = sizeof(ts_linear_options),
    .data_bytes = sizeof(ts_rows_linear),
    .least = 1,
    .most = 1,
    .keeps_in = true,
    .shape = shape,
    .create = create,
    .destroy = destroy,
    .forward = forward,
    .backward = backward,
    .page = "y = x W^T + b\n"
            "\n"
            "  in    vectors, side by side: (B, n)\n"
            "  out   (B, units)\n"
            "  NAME.0.weight (units, n), NAME.0.bias (units): uniform in\n"
            "        +-1/sqrt(n), as PyTorch's Linear has them\n"};
