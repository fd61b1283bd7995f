/* mlp.c - linear layers with an activation behind each. */
#include "dense/mlp.h"
#include "model/layer_ops.h"

typedef struct ts_mlp_options {
  ts_ints units;
} ts_mlp_options;

static const ts_key keys[] = {
    {TS_SCOPE_LAYER, "units", TS_KEY_INTS, offsetof(ts_mlp_options, units),
     NULL, "outputs", 1, 1000000, NULL, "width of each layer's output"},
};

typedef struct ts_mlp_layer {
  ts_mlp *mlp;
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
  const ts_mlp_spec s = {.n_in = ts_shape_width(x->shape),
                         .in_stride = x->stride,
                         .sizes = o->units.item,
                         .n_layers = o->units.n,
                         .param = param,
                         .arg = l,
                         .precision = l->spec->config->run.precision,
                         .batch_max = l->spec->batch_max,
                         .need_dx = l->in[0].dx != NULL,
                         .engine = l->spec->engine,
                         .kernels = l->spec->kernels};
  return ts_mlp_create(&d->mlp, &s, l->params,
                       (uint64_t)l->spec->config->run.seed, lane);
}

static void destroy(ts_layer *l) {
  ts_mlp_layer *d = l->data;
  ts_mlp_destroy(d->mlp);
}

static ts_err forward(ts_layer *l, const ts_layer_run *r) {
  ts_mlp_layer *d = l->data;
  return ts_mlp_forward(d->mlp, &l->out[0].x, l->in[0].value->x, r->batch,
                        r->hooks, r->lane);
}

static ts_err backward(ts_layer *l, const ts_layer_run *r) {
  ts_mlp_layer *d = l->data;
  return ts_mlp_backward(d->mlp, l->in[0].dx, l->out[0].dx, r->batch, r->hooks,
                         r->lane);
}

const ts_layer_ops ts_layer_mlp = {
    .kind = "mlp",
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
    .page = "y = relu(.. relu(x W_0^T + b_0) ..)\n"
            "\n"
            "  in    vectors, side by side: (B, n)\n"
            "  out   (B, last of units)\n"
            "  NAME.i.weight (units[i], n of layer i), NAME.i.bias: uniform\n"
            "        in +-1/sqrt(n), as PyTorch's Linear has them\n"};
