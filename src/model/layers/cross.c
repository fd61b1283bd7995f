/* cross.c - cross layers of DCN v2: full and of low rank. */
#include "dense/cross.h"

#include "model/layer_ops.h"

enum { FULL, LOW_RANK };

typedef struct ts_cross_options {
  int form;
  int32_t layers, rank;
} ts_cross_options;

static const ts_key keys[] = {
    {TS_SCOPE_LAYER, "form", TS_KEY_CHOICE, offsetof(ts_cross_options, form),
     "\"full\"", "", 1, 0, "full|low_rank", "what a layer's weights are"},
    {TS_SCOPE_LAYER, "layers", TS_KEY_INT32, offsetof(ts_cross_options, layers),
     "3", "", 1, 1000, NULL, "how many"},
    {TS_SCOPE_LAYER, "rank", TS_KEY_INT32, offsetof(ts_cross_options, rank),
     "0", "", 0, 1000000, NULL, "of low_rank's weights"},
};

typedef struct ts_cross_layers {
  ts_cross *cross;
  float *sink; /* the gradient of an input that wants none */
} ts_cross_layers;

static ts_err shape(ts_layer *l) {
  const ts_cross_options *o = l->options;
  const ts_value *x = l->in[0].value;
  char text[TS_SHAPE_BYTES];
  if (o->form == LOW_RANK && !o->rank)
    return ts_layer_fail(l,
                         "form = \"low_rank\" needs rank, below the width of "
                         "its input, %s",
                         ts_layer_shape_text(text, x->shape));
  if (o->form == FULL && o->rank)
    return ts_layer_fail(l, "rank is for form = \"low_rank\"");
  TS_DO(ts_layer_gives(l, NULL, ts_vector_of(ts_shape_width(x->shape))));
  l->out[0].stride = x->stride;
  return TS_OK;
}

static const char *or_name(const ts_layer *l, const char *other) {
  return other && *other ? other : l->config->name;
}

static ts_err create(ts_layer *l, ts_lane *lane) {
  const ts_cross_options *o = l->options;
  ts_cross_layers *d = l->data;
  const ts_value *x = l->in[0].value;
  const int32_t from = l->params->n;
  const ts_cross_spec s = {.width = ts_shape_width(x->shape),
                           .stride = x->stride,
                           .n_layers = o->layers,
                           .rank = o->rank,
                           .name = or_name(l, l->config->parameters),
                           .group = or_name(l, l->config->parameter_group),
                           .precision = l->spec->config->run.precision,
                           .floats = true,
                           .batch_max = l->spec->batch_max,
                           .engine = l->spec->engine};
  TS_DO(ts_cross_create(&d->cross, &s, l->params, l->spec->kernels,
                        (uint64_t)l->spec->config->run.seed, lane));
  for (int32_t i = from; i < l->params->n; i++)
    TS_DO(ts_layer_own(l, l->params->item[i]));
  if (l->in[0].dx || !l->spec->training) return TS_OK;
  return ts_layer_take(l, &d->sink, (int64_t)l->spec->batch_max * x->stride, 4);
}

static void destroy(ts_layer *l) {
  ts_cross_layers *d = l->data;
  ts_cross_destroy(d->cross);
}

static ts_err forward(ts_layer *l, const ts_layer_run *r) {
  ts_cross_layers *d = l->data;
  const void *y;
  TS_DO(ts_cross_forward(d->cross, &y, l->in[0].value->x, r->batch, r->hooks,
                         r->lane));
  l->out[0].x = (float *)y;
  return TS_OK;
}

static ts_err backward(ts_layer *l, const ts_layer_run *r) {
  ts_cross_layers *d = l->data;
  float *dx = d->sink ? d->sink : l->in[0].dx;
  return ts_cross_backward(d->cross, dx, l->out[0].dx, r->batch, r->hooks,
                           r->lane);
}

/* By element. */
static double products(const ts_layer *l) {
  const ts_cross_options *o = l->options;
  return (double)o->layers * ts_shape_width(l->out[0].shape);
}

const ts_layer_ops ts_layer_cross = {
    .kind = "cross",
    .keys = keys,
    .n_keys = sizeof keys / sizeof *keys,
    .options_bytes = sizeof(ts_cross_options),
    .data_bytes = sizeof(ts_cross_layers),
    .least = 1,
    .most = 1,
    .keeps_in = true,
    .owns_out = true,
    .shape = shape,
    .create = create,
    .destroy = destroy,
    .forward = forward,
    .backward = backward,
    .products = products,
    .page =
        "x_(l+1) = x_0 * (W_l x_l + b_l) + x_l, * by element, x_0 the input;\n"
        "low_rank: W_l V_l in W_l's place\n"
        "\n"
        "  in    vectors, side by side: (B, n)\n"
        "  out   (B, n)\n"
        "  NAME.kernels.l (n, n), NAME.bias.l (n); low_rank:\n"
        "  NAME.V_kernels.l (rank, n), NAME.W_kernels.l (n, rank),\n"
        "        NAME.bias.l: names and values as in TorchRec's CrossNet and\n"
        "        LowRankCrossNet, weights normal with variance 2 / (rows +\n"
        "        columns), biases 0; with `parameters` that is NAME\n"
        "  R. Wang et al., \"DCN V2: Improved Deep & Cross Network and\n"
        "  Practical Lessons for Web-scale Learning to Rank Systems\", WWW\n"
        "  2021\n"};
