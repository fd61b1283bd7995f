/* linear.c - y = x W^T + b. */
#include "model/layer_ops.h"

typedef struct ts_linear_options {
  int32_t units;
  bool bias, each;
} ts_linear_options;

static const ts_key keys[] = {
    {TS_SCOPE_LAYER, "units", TS_KEY_INT32, offsetof(ts_linear_options, units),
     NULL, "outputs", 1, 1000000, NULL, "width of its output"},
    {TS_SCOPE_LAYER, "bias", TS_KEY_BOOL, offsetof(ts_linear_options, bias),
     "true", "", 1, 0, NULL, "whether b is there"},
    {TS_SCOPE_LAYER, "each", TS_KEY_BOOL, offsetof(ts_linear_options, each),
     "false", "", 1, 0, NULL,
     "each of the fields by itself, with the same W and b"},
};

static ts_err shape(ts_layer *l) {
  const ts_linear_options *o = l->options;
  const ts_shape x = l->in[0].value->shape;
  if (o->each && x.form != TS_FIELDS)
    return ts_layer_fail(l, "each = true takes fields (B, F, n)");
  if (o->each) return ts_layer_gives(l, NULL, ts_fields_of(x.fields, o->units));
  return ts_layer_gives(l, NULL, ts_vector_of(o->units));
}

typedef struct ts_linear_data {
  ts_rows_linear rows;
  ts_packed packed; /* of fields, one behind the other */
  const float *x;   /* that the last forward pass read */
} ts_linear_data;

static bool of_fields(const ts_layer *l) {
  return l->out[0].shape.form == TS_FIELDS;
}

static ts_err create(ts_layer *l, ts_lane *lane) {
  const ts_linear_options *o = l->options;
  ts_linear_data *d = l->data;
  const ts_value *x = l->in[0].value;
  const bool each = of_fields(l);
  const ts_rows_linear_spec s = {.n_in = each ? x->shape.dim
                                              : ts_shape_width(x->shape),
                                 .last = true,
                                 .in_stride = each ? x->shape.dim : x->stride,
                                 .n_out = o->units,
                                 .rows_each = each ? x->shape.fields : 1,
                                 .bias = o->bias,
                                 .need_dx = l->in[0].dx != NULL};
  if (each) TS_DO(ts_packed_take(&d->packed, l, 0));
  return ts_rows_linear_create(&d->rows, l, &s, lane);
}

/* W is counted once; each of the fields is multiplied by it. */
static double products(const ts_layer *l) {
  const ts_linear_options *o = l->options;
  const ts_shape y = l->out[0].shape, x = l->in[0].value->shape;
  return of_fields(l) ? (double)(y.fields - 1) * x.dim * o->units : 0;
}

static void destroy(ts_layer *l) {
  ts_rows_linear_reset(&((ts_linear_data *)l->data)->rows);
}

static ts_err forward(ts_layer *l, const ts_layer_run *r) {
  ts_linear_data *d = l->data;
  d->x = l->in[0].value->x;
  if (of_fields(l)) TS_DO(ts_packed_x(&d->packed, l, r, 0, &d->x));
  return ts_rows_linear_forward(&d->rows, r, l->out[0].x, d->x);
}

static ts_err backward(ts_layer *l, const ts_layer_run *r) {
  ts_linear_data *d = l->data;
  const bool each = of_fields(l);
  float *dx = each ? ts_packed_dx(&d->packed, l, 0) : l->in[0].dx;
  TS_DO(ts_rows_linear_backward(&d->rows, r, dx, l->out[0].dx, d->x,
                                l->out[0].x));
  return each ? ts_packed_give(&d->packed, l, r, 0) : TS_OK;
}

const ts_layer_ops ts_layer_linear = {
    .kind = "linear",
    .tokens = TS_BY_ROW,
    .keys = keys,
    .n_keys = sizeof keys / sizeof *keys,
    .options_bytes = sizeof(ts_linear_options),
    .data_bytes = sizeof(ts_linear_data),
    .least = 1,
    .most = 1,
    .keeps_in = true,
    .shape = shape,
    .create = create,
    .products = products,
    .destroy = destroy,
    .forward = forward,
    .backward = backward,
    .page =
        "y = x W^T + b\n"
        "\n"
        "  in    vectors, side by side: (B, n); with each fields (B, F, n)\n"
        "  out   (B, units); with each (B, F, units)\n"
        "  NAME.0.weight (units, n), NAME.0.bias (units): uniform in\n"
        "        +-1/sqrt(n), as PyTorch's Linear has them\n"};
