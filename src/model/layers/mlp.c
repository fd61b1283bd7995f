/* mlp.c - linear layers with an activation behind each. */
#include "dense/mlp.h"

#include <math.h>

#include "model/mlp_options.h"

#define KEY(name, kind, fallback, min, max, choices, help)                     \
  {                                                                            \
    TS_SCOPE_LAYER, #name, kind, offsetof(ts_mlp_options, name), fallback, "", \
        min, max, choices, help                                                \
  }

static const ts_key keys[] = {
    {TS_SCOPE_LAYER, "units", TS_KEY_INTS, offsetof(ts_mlp_options, units),
     NULL, "outputs", 1, 1000000, NULL, "width of each layer's output"},
    KEY(activation, TS_KEY_CHOICE, "\"relu\"", 1, 0, TS_ACTIVATIONS,
        "behind each linear layer, and its norm"),
    KEY(last_activation, TS_KEY_CHOICE, "\"same\"", 1, 0,
        "same|" TS_ACTIVATIONS,
        "of the last layer; \"linear\": it has no norm and no dropout either"),
    KEY(norm, TS_KEY_CHOICE, "\"none\"", 1, 0, "none|batch|layer|rms",
        "behind each linear layer, before its activation"),
    KEY(dropout, TS_KEY_FLOAT, "0", 0, 0.999999, NULL,
        "probability of 0, behind each activation"),
    KEY(residual, TS_KEY_BOOL, "false", 1, 0, NULL,
        "a layer's input is added to its output where their widths are equal"),
};

typedef struct ts_mlp_layer {
  ts_mlp *mlp; /* where it is plain; else full */
  ts_mlp_full *full;
} ts_mlp_layer;

static ts_err shape(ts_layer *l) {
  const ts_mlp_options *o = l->options;
  if (!o->units.n) return ts_layer_fail(l, "units is empty: give [64, 32]");
  return ts_layer_gives(l, NULL,
                        ts_vector_of((int32_t)o->units.item[o->units.n - 1]));
}

static ts_err param(void *arg, ts_param **p, int32_t i, bool last,
                    const char *tail, int32_t rows, int32_t cols,
                    double bound) {
  return ts_layer_param(arg, p, i, last, tail, rows, cols, bound);
}

static ts_err create(ts_layer *l, ts_lane *lane) {
  const ts_mlp_options *o = l->options;
  ts_mlp_layer *d = l->data;
  const ts_value *x = l->in[0].value;
  const bool bare = o->last_activation == TS_ACTIVATION_LINEAR + 1;
  if (!ts_mlp_is_plain(o)) return ts_mlp_full_create(&d->full, l, lane);
  const ts_mlp_spec s = {.n_in = ts_shape_width(x->shape),
                         .in_stride = x->stride,
                         .sizes = o->units.item,
                         .n_layers = o->units.n,
                         .last_linear = bare,
                         .param = param,
                         .arg = l,
                         .precision = l->spec->config->run.precision,
                         .x_half = x->half,
                         .batch_max = l->spec->batch_max,
                         .varies = l->tokens != NULL,
                         .need_dx = l->in[0].dx != NULL,
                         .engine = l->spec->engine,
                         .kernels = l->spec->kernels};
  return ts_mlp_create(&d->mlp, &s, lane);
}

static bool takes_half(const ts_layer *l) {
  return ts_mlp_is_plain(l->options) &&
         ts_linear_precision(l->spec->config->run.precision,
                             l->spec->kernels) == TS_PRECISION_BF16;
}

static void count(ts_model_count *c, const ts_layer *l) {
  const ts_mlp_options *o = l->options;
  double n_in = ts_shape_width(l->in[0].value->shape);
  for (int32_t i = 0; i < o->units.n; i++) {
    const double n = (n_in + 1) * (double)o->units.item[i];
    c->weights += n;
    c->largest = fmax(c->largest, n);
    n_in = (double)o->units.item[i];
    if (i < o->units.n - 1) c->activations += 2 * n_in;
  }
}

static void destroy(ts_layer *l) {
  ts_mlp_layer *d = l->data;
  ts_mlp_destroy(d->mlp);
  ts_mlp_full_destroy(d->full);
}

static ts_err forward(ts_layer *l, const ts_layer_run *r) {
  ts_mlp_layer *d = l->data;
  if (d->full) return ts_mlp_full_forward(d->full, l, r);
  float *y;
  TS_DO(ts_mlp_forward(d->mlp, &y, l->in[0].value->x, r->batch, r->hooks,
                       r->lane));
  if (l->out[0].x != y) l->out[0].x = y; /* others may be reading it */
  return TS_OK;
}

static ts_err backward(ts_layer *l, const ts_layer_run *r) {
  ts_mlp_layer *d = l->data;
  if (d->full) return ts_mlp_full_backward(d->full, l, r);
  return ts_mlp_backward(d->mlp, l->in[0].dx, l->out[0].dx, r->batch, r->hooks,
                         r->lane);
}

const ts_layer_ops ts_layer_mlp = {
    .kind = "mlp",
    .tokens = TS_BY_ROW,
    .keys = keys,
    .n_keys = sizeof keys / sizeof *keys,
    .options_bytes = sizeof(ts_mlp_options),
    .data_bytes = sizeof(ts_mlp_layer),
    .least = 1,
    .most = 1,
    .keeps_in = true,
    .owns_out = true,
    .shape = shape,
    .create = create,
    .destroy = destroy,
    .forward = forward,
    .backward = backward,
    .count = count,
    .takes_half = takes_half,
    .page =
        "Layers x_{i+1} = dropout(act(norm(x_i W_i^T + b_i))), + x_i with\n"
        "residual, where the widths are equal; relu and nothing else unless\n"
        "its keys say more\n"
        "\n"
        "  in    vectors, side by side: (B, n)\n"
        "  out   (B, last of units)\n"
        "  NAME.i.weight (units[i], n of layer i), NAME.i.bias: uniform\n"
        "        in +-1/sqrt(n), as PyTorch's Linear has them\n"
        "  NAME.i.norm.weight: 1, NAME.i.norm.bias: 0; of norm = \"batch\"\n"
        "        NAME.i.norm.running_mean and running_var, too: see\n"
        "        `tessera help layer batch_norm`\n"
        "  NAME.i.activation.weight of prelu and dice: see\n"
        "        `tessera help layer activation`\n"};
