/* cross.c - cross layers of DCN and DCN v2. */
#include "dense/cross.h"

#include "model/layers/cross_forms.h"
#include "model/mlp_options.h"

static const ts_key keys[] = {
    {TS_SCOPE_LAYER, "form", TS_KEY_CHOICE, offsetof(ts_cross_options, form),
     "\"full\"", "", 1, 0, "full|low_rank|vector|moe",
     "what a layer's weights are"},
    {TS_SCOPE_LAYER, "layers", TS_KEY_INT32, offsetof(ts_cross_options, layers),
     "3", "", 1, 1000, NULL, "how many"},
    {TS_SCOPE_LAYER, "rank", TS_KEY_INT32, offsetof(ts_cross_options, rank),
     "0", "", 0, 1000000, NULL, "of low_rank's and moe's weights"},
    {TS_SCOPE_LAYER, "experts", TS_KEY_INT32,
     offsetof(ts_cross_options, experts), "4", "", 1, 10000, NULL, "of moe"},
};

extern const ts_layer_ops ts_layer_mlp;

typedef struct ts_cross_layers {
  ts_cross *cross;
  ts_cross_forms *forms; /* NULL: dense/cross.h does it */
  float *sink;           /* the gradient of an input that wants none */
} ts_cross_layers;

static bool is_form(const ts_cross_options *o) {
  return o->form == TS_CROSS_VECTOR || o->form == TS_CROSS_MOE;
}

static ts_err shape(ts_layer *l) {
  const ts_cross_options *o = l->options;
  const ts_value *x = l->in[0].value;
  char text[TS_SHAPE_BYTES];
  const bool ranked = o->form == TS_CROSS_LOW_RANK || o->form == TS_CROSS_MOE;
  if (ranked && !o->rank)
    return ts_layer_fail(l,
                         "form = \"low_rank\" and \"moe\" need rank, below the "
                         "width of the input, %s",
                         ts_layer_shape_text(text, x->shape));
  if (!ranked && o->rank)
    return ts_layer_fail(l, "rank is for form = \"low_rank\" and \"moe\"");
  if (ranked && (int64_t)o->rank * o->experts > TS_WIDTH_MAX)
    return ts_layer_fail(l,
                         "%d experts of rank %d: a sample has %d numbers at "
                         "most",
                         o->experts, o->rank, TS_WIDTH_MAX);
  TS_DO(ts_layer_gives(l, NULL, ts_vector_of(ts_shape_width(x->shape))));
  if (!is_form(o)) l->out[0].stride = x->stride;
  return TS_OK;
}

static const char *or_name(const ts_layer *l, const char *other) {
  return other && *other ? other : l->config->name;
}

static ts_cross_spec spec_of(const ts_layer *l) {
  const ts_cross_options *o = l->options;
  const ts_value *x = l->in[0].value;
  return (ts_cross_spec){.width = ts_shape_width(x->shape),
                         .stride = x->stride,
                         .n_layers = o->layers,
                         .rank = o->rank,
                         .name = or_name(l, l->config->parameters),
                         .group = or_name(l, l->config->parameter_group),
                         .precision = l->spec->config->run.precision,
                         .floats = !x->half,
                         .y_half = l->out[0].half,
                         .batch_max = l->spec->batch_max,
                         .engine = l->spec->engine};
}

static ts_err create(ts_layer *l, ts_lane *lane) {
  ts_cross_layers *d = l->data;
  const ts_value *x = l->in[0].value;
  const int32_t from = l->params->n;
  const ts_cross_spec s = spec_of(l);
  if (is_form(l->options)) return ts_cross_forms_create(&d->forms, l, lane);
  TS_DO(ts_cross_create(&d->cross, &s, l->params, l->spec->kernels,
                        (uint64_t)l->spec->config->run.seed, lane));
  for (int32_t i = from; i < l->params->n; i++)
    TS_DO(ts_layer_own(l, l->params->item[i]));
  if (l->in[0].dx || !l->spec->training) return TS_OK;
  return ts_layer_take(l, &d->sink, (int64_t)l->spec->batch_max * x->stride, 4);
}

/* All that its layers keep is bf16, or nothing is. */
static bool takes_half(const ts_layer *l) {
  ts_cross_spec s = spec_of(l);
  s.floats = false;
  return !is_form(l->options) && ts_cross_in_bf16(&s, l->spec->kernels);
}

/* Narrow products are of f32 and read it so. */
static bool gives_half(const ts_layer *l, const ts_layer *reader) {
  const ts_mlp_options *o = reader->options;
  if (!l->in[0].value->half) return false;
  return reader->ops != &ts_layer_mlp ||
         ts_linear_in_bf16(l->spec->config->run.precision,
                           (int32_t)o->units.item[0], l->spec->engine,
                           l->spec->kernels);
}

static void destroy(ts_layer *l) {
  ts_cross_layers *d = l->data;
  ts_cross_destroy(d->cross);
  ts_cross_forms_destroy(d->forms);
}

static ts_err forward(ts_layer *l, const ts_layer_run *r) {
  ts_cross_layers *d = l->data;
  const void *y;
  if (d->forms) return ts_cross_forms_forward(d->forms, l, r);
  TS_DO(ts_cross_forward(d->cross, &y, l->in[0].value->x, r->batch, r->hooks,
                         r->lane));
  if (l->out[0].x != y) l->out[0].x = (float *)y; /* others may be reading it */
  return TS_OK;
}

static ts_err backward(ts_layer *l, const ts_layer_run *r) {
  ts_cross_layers *d = l->data;
  if (d->forms) return ts_cross_forms_backward(d->forms, l, r);
  float *dx = d->sink ? d->sink : l->in[0].dx;
  return ts_cross_backward(d->cross, dx, l->out[0].dx, r->batch, r->hooks,
                           r->lane);
}

/* By element. */
static double products(const ts_layer *l) {
  const ts_cross_options *o = l->options;
  const double inner = o->form == TS_CROSS_MOE ? o->experts * o->rank : 0;
  return o->layers * (ts_shape_width(l->out[0].shape) + inner);
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
    .gives_half = gives_half,
    .takes_half = takes_half,
    .page =
        "full: x_(l+1) = x_0 * (W_l x_l + b_l) + x_l, * by element, x_0 the\n"
        "input; low_rank: W_l V_l in W_l's place.\n"
        "vector: x_(l+1) = x_0 (w_l . x_l) + b_l + x_l: DCN's, as FuxiCTR.\n"
        "moe: x_(l+1) = sum over experts e of p_e x_0 * (U_le tanh(C_le\n"
        "tanh(V_le x_l)) + b_l) + x_l, p = softmax(G_l x_l): DCN v2's, as\n"
        "DeepCTR-Torch's CrossNetMix, but that each layer has its own G.\n"
        "\n"
        "  in    vectors, side by side: (B, n)\n"
        "  out   (B, n)\n"
        "  NAME.kernels.l (n, n), NAME.bias.l (n); low_rank:\n"
        "  NAME.V_kernels.l (rank, n), NAME.W_kernels.l (n, rank),\n"
        "        NAME.bias.l: names and values as in TorchRec's CrossNet and\n"
        "        LowRankCrossNet, weights normal with variance 2 / (rows +\n"
        "        columns), biases 0; with `parameters` that is NAME\n"
        "  vector: NAME.l.weight (1, n), NAME.l.bias (n) 0\n"
        "  moe: NAME.i.weight, V_l (experts rank, n) at i = 4 l, G_l "
        "(experts,\n"
        "        n) at 4 l + 1, C_l (experts rank, rank) at 4 l + 2, U_l (n,\n"
        "        experts rank) at 4 l + 3 with NAME.i.bias, b_l; expert by\n"
        "        expert: these and vector's are uniform in +-1/sqrt(columns)\n"
        "  R. Wang et al., \"Deep & Cross Network for Ad Click Predictions\",\n"
        "  ADKDD 2017; R. Wang et al., \"DCN V2: Improved Deep & Cross Network "
        "and\n"
        "  Practical Lessons for Web-scale Learning to Rank Systems\", WWW\n"
        "  2021\n"};
