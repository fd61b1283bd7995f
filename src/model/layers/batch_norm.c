/* batch_norm.c - batch norm of what a layer reads. */
#include "model/batch_norm.h"

typedef struct ts_batch_norm_options {
  double eps, momentum;
  bool affine;
} ts_batch_norm_options;

static const ts_key keys[] = {
    {TS_SCOPE_LAYER, "eps", TS_KEY_FLOAT, offsetof(ts_batch_norm_options, eps),
     TS_BATCH_NORM_EPS, "", 0, 1, NULL, "added to the variance"},
    {TS_SCOPE_LAYER, "momentum", TS_KEY_FLOAT,
     offsetof(ts_batch_norm_options, momentum), TS_BATCH_NORM_MOMENTUM, "", 0,
     1, NULL, "of a batch in the running statistics"},
    {TS_SCOPE_LAYER, "affine", TS_KEY_BOOL,
     offsetof(ts_batch_norm_options, affine), "true", "", 1, 0, NULL,
     "whether weight and bias are there"},
};

static ts_err shape(ts_layer *l) {
  return ts_layer_gives(l, NULL, l->in[0].value->shape);
}

static ts_err create(ts_layer *l, ts_lane *lane) {
  (void)lane;
  const ts_batch_norm_options *o = l->options;
  const ts_batch_norm_spec s = {.prefix = "",
                                .n = ts_shape_width(l->out[0].shape),
                                .affine = o->affine,
                                .eps = o->eps,
                                .momentum = o->momentum};
  return ts_batch_norm_create(l->data, l, &s);
}

static void destroy(ts_layer *l) {
  ts_batch_norm_reset(l->data);
}

static ts_err forward(ts_layer *l, const ts_layer_run *r) {
  ts_batch_norm *b = l->data;
  const ts_value *x = l->in[0].value, *y = &l->out[0];
  if (b->p[0]) TS_DO(ts_layer_begin(r, b->p[0], TS_FORWARD));
  TS_DO(ts_batch_norm_forward(b, l, r, y->x, y->stride, x->x, x->stride));
  return b->p[0] ? ts_layer_end(r, b->p[0], TS_FORWARD) : TS_OK;
}

static ts_err backward(ts_layer *l, const ts_layer_run *r) {
  ts_batch_norm *b = l->data;
  const ts_input *in = &l->in[0];
  const ts_value *x = in->value, *y = &l->out[0];
  if (!in->dx && !b->p[0]) return TS_OK;
  if (b->p[0]) TS_DO(ts_layer_begin(r, b->p[0], TS_BACKWARD));
  TS_DO(ts_batch_norm_backward(b, l, r, in->dx ? in->dx : y->dx,
                               in->dx ? x->stride : y->stride, y->dx, y->stride,
                               x->x, x->stride));
  if (!b->p[0]) return TS_OK;
  TS_DO(ts_layer_gave(r, b->p, 2));
  return ts_layer_end(r, b->p[0], TS_BACKWARD);
}

const ts_layer_ops ts_layer_batch_norm = {
    .kind = "batch_norm",
    .keys = keys,
    .n_keys = sizeof keys / sizeof *keys,
    .options_bytes = sizeof(ts_batch_norm_options),
    .data_bytes = sizeof(ts_batch_norm),
    .least = 1,
    .most = 1,
    .keeps_in = true,
    .any_stride = true,
    .shape = shape,
    .create = create,
    .destroy = destroy,
    .forward = forward,
    .backward = backward,
    .page =
        "y = (x - mean) / sqrt(var + eps) weight + bias, column by column:\n"
        "PyTorch's BatchNorm1d\n"
        "\n"
        "  In training mean and variance are those of the batch of all ranks\n"
        "  (of a micro-batch, with run.accumulate), else running ones:\n"
        "  running = (1 - momentum) running + momentum batch's, of the\n"
        "  variance that of n - 1.\n"
        "\n"
        "  in    vectors, side by side, or fields, whose numbers are columns\n"
        "        of their own\n"
        "  out   that shape\n"
        "  NAME.0.weight (n): 1, NAME.0.bias (n): 0\n"
        "  NAME.0.running_mean (n), NAME.0.running_var (n): in checkpoints\n"
        "  S. Ioffe, C. Szegedy, \"Batch Normalization\", ICML 2015\n"};
