/* dropout.c - y = x / (1 - p) or 0. */
#include "model/layer_ops.h"

typedef struct ts_dropout_options {
  double p;
} ts_dropout_options;

static const ts_key keys[] = {
    {TS_SCOPE_LAYER, "p", TS_KEY_FLOAT, offsetof(ts_dropout_options, p), "0.5",
     "", 0, 0.999999, NULL, "probability of 0"},
};

static ts_err shape(ts_layer *l) {
  return ts_layer_gives(l, NULL, l->in[0].value->shape);
}

/* Its own place; without training out[0].x may be another. */
typedef struct ts_dropout {
  float *own;
} ts_dropout;

static ts_err create(ts_layer *l, ts_lane *lane) {
  ts_dropout *d = l->data;
  (void)lane;
  d->own = l->out[0].x;
  return TS_OK;
}

static ts_err drop(ts_layer *l, const ts_layer_run *r, ts_rows to,
                   ts_rows from) {
  const ts_dropout_options *o = l->options;
  return ts_run_drop(l, r, 0, to, from, ts_shape_width(l->out[0].shape), o->p);
}

static ts_err forward(ts_layer *l, const ts_layer_run *r) {
  const ts_dropout *d = l->data;
  const ts_value *x = l->in[0].value;
  ts_value *y = &l->out[0];
  const bool passes = l->passes && !r->training;
  y->x = passes ? x->x : d->own;
  if (passes) return TS_OK;
  return drop(l, r, (ts_rows){y->x, y->stride}, (ts_rows){x->x, x->stride});
}

static ts_err backward(ts_layer *l, const ts_layer_run *r) {
  const ts_input *in = &l->in[0];
  const ts_value *y = &l->out[0];
  if (!in->dx) return TS_OK;
  return drop(l, r, (ts_rows){in->dx, in->value->stride},
              (ts_rows){y->dx, y->stride});
}

const ts_layer_ops ts_layer_dropout = {
    .kind = "dropout",
    .tokens = TS_BY_ROW,
    .keys = keys,
    .n_keys = sizeof keys / sizeof *keys,
    .options_bytes = sizeof(ts_dropout_options),
    .data_bytes = sizeof(ts_dropout),
    .least = 1,
    .most = 1,
    .any_stride = true,
    .may_pass = true,
    .shape = shape,
    .create = create,
    .forward = forward,
    .backward = backward,
    .page =
        "y = x / (1 - p), or 0 with probability p: PyTorch's Dropout\n"
        "\n"
        "  In training alone.  What is dropped depends on run.seed, the\n"
        "  layer's name, the epoch and the sample's place in the order of the\n"
        "  data: so it is the same on any number of ranks, and after a\n"
        "  restart.\n"
        "\n"
        "  in    vectors, side by side, or fields\n"
        "  out   that shape\n"
        "  N. Srivastava et al., \"Dropout\", JMLR 2014\n"};
