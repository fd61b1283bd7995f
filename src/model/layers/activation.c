/* activation.c - y = act(x). */
#include "model/activation.h"

typedef struct ts_activation_options {
  int activation;
  double slope;
} ts_activation_options;

static const ts_key keys[] = {
    {TS_SCOPE_LAYER, "activation", TS_KEY_CHOICE,
     offsetof(ts_activation_options, activation), "\"relu\"", "", 1, 0,
     TS_ACTIVATIONS, "which"},
    {TS_SCOPE_LAYER, "slope", TS_KEY_FLOAT,
     offsetof(ts_activation_options, slope), "0.01", "", 0, 1, NULL,
     "of leaky_relu, where x < 0"},
};

typedef struct ts_activation_layer {
  ts_activation act;
  ts_packed x;
} ts_activation_layer;

static ts_err shape(ts_layer *l) {
  return ts_layer_gives(l, NULL, l->in[0].value->shape);
}

static ts_err create(ts_layer *l, ts_lane *lane) {
  (void)lane;
  ts_activation_layer *d = l->data;
  const ts_activation_options *o = l->options;
  const ts_shape s = l->in[0].value->shape;
  const bool rows = o->activation == TS_ACTIVATION_SOFTMAX;
  const ts_activation_spec spec = {.kind = (ts_activation_kind)o->activation,
                                   .prefix = "",
                                   .n = rows ? s.dim : ts_shape_width(s),
                                   .rows_each = rows ? s.fields : 1,
                                   .slope = o->slope};
  if (spec.rows_each > 1) TS_DO(ts_packed_take(&d->x, l, 0));
  return ts_activation_create(&d->act, l, &spec);
}

static void destroy(ts_layer *l) {
  ts_activation_layer *d = l->data;
  ts_activation_reset(&d->act);
}

/* Of a row: a field's, of those that are packed. */
static int64_t stride_of(const ts_layer *l) {
  const ts_activation_layer *d = l->data;
  return d->act.rows_each > 1 ? d->act.n : l->in[0].value->stride;
}

static ts_err forward(ts_layer *l, const ts_layer_run *r) {
  ts_activation_layer *d = l->data;
  const ts_param *p = d->act.weight;
  const float *x;
  TS_DO(ts_packed_x(&d->x, l, r, 0, &x));
  if (p) TS_DO(ts_layer_begin(r, p, TS_FORWARD));
  TS_DO(ts_activation_forward(&d->act, l, r, (ts_rows){l->out[0].x, d->act.n},
                              (ts_rows){(float *)x, stride_of(l)}));
  return p ? ts_layer_end(r, p, TS_FORWARD) : TS_OK;
}

static ts_err backward(ts_layer *l, const ts_layer_run *r) {
  ts_activation_layer *d = l->data;
  ts_param *p = d->act.weight;
  const float *x;
  float *dx = ts_packed_dx(&d->x, l, 0);
  const ts_rows dy = {l->out[0].dx, d->act.n};
  if (!dx && !p) return TS_OK;
  TS_DO(ts_packed_x(&d->x, l, r, 0, &x));
  if (p) TS_DO(ts_layer_begin(r, p, TS_BACKWARD));
  TS_DO(ts_activation_backward(&d->act, l, r,
                               dx ? (ts_rows){dx, stride_of(l)} : dy, dy,
                               (ts_rows){(float *)x, stride_of(l)}));
  if (dx) TS_DO(ts_packed_give(&d->x, l, r, 0));
  if (!p) return TS_OK;
  TS_DO(ts_layer_gave(r, &p, 1));
  return ts_layer_end(r, p, TS_BACKWARD);
}

const ts_layer_ops ts_layer_activation = {
    .kind = "activation",
    .tokens = TS_BY_ROW,
    .keys = keys,
    .n_keys = sizeof keys / sizeof *keys,
    .options_bytes = sizeof(ts_activation_options),
    .data_bytes = sizeof(ts_activation_layer),
    .least = 1,
    .most = 1,
    .keeps_in = true,
    .shape = shape,
    .create = create,
    .destroy = destroy,
    .forward = forward,
    .backward = backward,
    .page = "y = act(x), element by element\n"
            "\n"
            "  in    vectors, side by side, or fields\n"
            "  out   that shape\n" TS_ACTIVATIONS_PAGE
            "  NAME.0.weight (n) of prelu and dice; dice's running statistics\n"
            "        are NAME.0.running_mean and running_var\n"};
