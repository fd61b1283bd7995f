/* scale.c - y = factor x. */
#include "model/layer_ops.h"

typedef struct ts_scale_options {
  double factor;
  bool learnt;
} ts_scale_options;

static const ts_key keys[] = {
    {TS_SCOPE_LAYER, "factor", TS_KEY_FLOAT, offsetof(ts_scale_options, factor),
     "1", "", 1, 0, NULL, "the factor, at first where it is learnt"},
    {TS_SCOPE_LAYER, "learnt", TS_KEY_BOOL, offsetof(ts_scale_options, learnt),
     "false", "", 1, 0, NULL, "it is a parameter"},
};

typedef struct ts_scale {
  ts_param *weight; /* NULL: it is fixed */
  float *sums;      /* (batch_max) of dy x */
} ts_scale;

static ts_err shape(ts_layer *l) {
  return ts_layer_gives(l, NULL, l->in[0].value->shape);
}

static ts_err create(ts_layer *l, ts_lane *lane) {
  (void)lane;
  const ts_scale_options *o = l->options;
  ts_scale *d = l->data;
  if (!o->learnt) return TS_OK;
  TS_DO(ts_layer_param(l, &d->weight, 0, false, "weight", 1, 0, 0));
  TS_DO(ts_param_init_constant(d->weight, (float)o->factor));
  return ts_layer_take(l, &d->sums, l->spec->batch_max, 4);
}

static ts_err times(const ts_layer *l, const ts_layer_run *r, ts_rows y,
                    ts_rows x) {
  const ts_scale_options *o = l->options;
  const ts_scale *d = l->data;
  const ts_map_args a = {.y = y.p,
                         .a = x.p,
                         .x = d->weight ? d->weight->w : NULL,
                         .ys = {.b = y.stride, .c = 1},
                         .as = {.b = x.stride, .c = 1},
                         .n_b = r->batch,
                         .n_h = 1,
                         .n_i = 1,
                         .n_j = ts_shape_width(l->out[0].shape),
                         .op = TS_MAP_MULTIPLY,
                         .scale = d->weight ? 1 : (float)o->factor};
  return ts_run_map(l, r, &a);
}

static ts_err forward(ts_layer *l, const ts_layer_run *r) {
  const ts_scale *d = l->data;
  const ts_value *x = l->in[0].value, *y = &l->out[0];
  if (d->weight) TS_DO(ts_layer_begin(r, d->weight, TS_FORWARD));
  TS_DO(times(l, r, (ts_rows){y->x, y->stride}, (ts_rows){x->x, x->stride}));
  return d->weight ? ts_layer_end(r, d->weight, TS_FORWARD) : TS_OK;
}

/* Sample by sample, then over them. */
static ts_err weight_grad(const ts_layer *l, const ts_layer_run *r) {
  const ts_scale *d = l->data;
  const ts_value *x = l->in[0].value, *y = &l->out[0];
  const ts_contract_args a = {.c = d->sums,
                              .a = y->dx,
                              .b = x->x,
                              .cs = {.b = 1},
                              .as = {.b = y->stride, .c = 1},
                              .bs = {.b = x->stride, .c = 1},
                              .n_b = r->batch,
                              .n_k = ts_shape_width(y->shape),
                              .n_h = 1,
                              .n_i = 1,
                              .n_j = 1,
                              .scale = 1};
  TS_DO(ts_run_contract(l, r, &a));
  return ts_run_bias_grad(l, r, d->weight->grad, d->sums, r->batch, 1, 1);
}

static ts_err backward(ts_layer *l, const ts_layer_run *r) {
  ts_scale *d = l->data;
  const ts_input *in = &l->in[0];
  const ts_value *y = &l->out[0];
  if (d->weight) {
    TS_DO(ts_layer_begin(r, d->weight, TS_BACKWARD));
    TS_DO(weight_grad(l, r));
  }
  if (in->dx)
    TS_DO(times(l, r, (ts_rows){in->dx, in->value->stride},
                (ts_rows){y->dx, y->stride}));
  if (!d->weight) return TS_OK;
  TS_DO(ts_layer_gave(r, &d->weight, 1));
  return ts_layer_end(r, d->weight, TS_BACKWARD);
}

const ts_layer_ops ts_layer_scale = {
    .kind = "scale",
    .tokens = TS_BY_ROW,
    .keys = keys,
    .n_keys = sizeof keys / sizeof *keys,
    .options_bytes = sizeof(ts_scale_options),
    .data_bytes = sizeof(ts_scale),
    .least = 1,
    .most = 1,
    .keeps_in = true,
    .any_stride = true,
    .shape = shape,
    .create = create,
    .forward = forward,
    .backward = backward,
    .page = "y = factor x\n"
            "\n"
            "  in    vectors, side by side, or fields\n"
            "  out   that shape\n"
            "  NAME.0.weight (1): factor; with learnt = true\n"};
