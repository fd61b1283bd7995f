/* senet.c - fields weighed by what all of them say (FiBiNET).
 *
 *   z_i = mean over d of x_i, a = act(W_1 relu(W_0 z)), y_i = a_i x_i */
#include "model/layer_ops.h"

enum { RELU, SIGMOID };

typedef struct ts_senet_options {
  int32_t reduction;
  int activation;
} ts_senet_options;

static const ts_key keys[] = {
    {TS_SCOPE_LAYER, "reduction", TS_KEY_INT32,
     offsetof(ts_senet_options, reduction), "3", "", 1, 1000000, NULL,
     "fields that come on one hidden unit"},
    {TS_SCOPE_LAYER, "activation", TS_KEY_CHOICE,
     offsetof(ts_senet_options, activation), "\"relu\"", "", 1, 0,
     "relu|sigmoid", "of the weights"},
};

typedef struct ts_senet {
  ts_rows_linear squeeze, excite;
  float *z, *hidden, *a;    /* (batch_max, F), (.., F / reduction), (.., F) */
  float *dz, *dhidden, *da; /* the same */
  float *pre;               /* of the sigmoid; NULL: relu, which a has */
} ts_senet;

static ts_err shape(ts_layer *l) {
  return ts_layer_gives(l, NULL, l->in[0].value->shape);
}

static ts_err create(ts_layer *l, ts_lane *lane) {
  const ts_senet_options *o = l->options;
  ts_senet *d = l->data;
  const int32_t f = l->in[0].value->shape.fields;
  const int32_t few = f / o->reduction > 1 ? f / o->reduction : 1;
  const int64_t n = l->spec->batch_max;
  const unsigned relu = o->activation == RELU ? TS_ROWS_RELU : 0;
  TS_DO(
      ts_rows_linear_make(&d->squeeze, l, 0, f, f, few, 1, TS_ROWS_RELU, lane));
  TS_DO(ts_rows_linear_make(&d->excite, l, 1, few, few, f, 1, relu, lane));
  TS_DO(ts_layer_take(l, &d->z, n * f, 4));
  TS_DO(ts_layer_take(l, &d->hidden, n * few, 4));
  TS_DO(ts_layer_take(l, &d->a, n * f, 4));
  if (o->activation == SIGMOID) TS_DO(ts_layer_take(l, &d->pre, n * f, 4));
  if (!l->spec->training) return TS_OK;
  TS_DO(ts_layer_take(l, &d->dz, n * f, 4));
  TS_DO(ts_layer_take(l, &d->dhidden, n * few, 4));
  return ts_layer_take(l, &d->da, n * f, 4);
}

static void destroy(ts_layer *l) {
  ts_senet *d = l->data;
  ts_rows_linear_reset(&d->squeeze);
  ts_rows_linear_reset(&d->excite);
}

/* Y (B, F, d) = FACTOR a_i x_i, a (B, F); X NULL: a_i alone. */
static ts_err weigh(const ts_layer *l, const ts_layer_run *r, float *y,
                    int64_t y_stride, const float *a, const float *x,
                    int64_t x_stride, float factor, bool add) {
  const ts_shape s = l->out[0].shape;
  return ts_run_times(l, r, y, (ts_stride4){.b = y_stride, .r = s.dim, .c = 1},
                      a, (ts_stride4){.b = s.fields, .r = 1}, x,
                      (ts_stride4){.b = x_stride, .r = s.dim, .c = 1},
                      (ts_sizes){r->batch, 1, s.fields, s.dim, 1}, factor, add);
}

/* TO (B, F) = SCALE times the sum over d of x_i * with_i (NULL: 1). */
static ts_err sum(const ts_layer *l, const ts_layer_run *r, float *to,
                  const float *with, float scale) {
  const ts_value *x = l->in[0].value;
  return ts_run_products(
      l, r, to, (ts_stride4){.b = x->shape.fields, .h = 1}, x->x,
      (ts_stride4){.b = x->stride, .h = x->shape.dim, .c = 1}, with,
      (ts_stride4){.b = l->out[0].stride, .h = x->shape.dim, .c = 1},
      (ts_sizes){r->batch, x->shape.fields, 1, 1, x->shape.dim}, scale, false);
}

static ts_err sigmoid(const ts_layer *l, const ts_layer_run *r, ts_pass pass) {
  const ts_senet *d = l->data;
  const int32_t f = l->out[0].shape.fields;
  return d->pre ? ts_run_act_rows(l, r, TS_ACT_SIGMOID, r->batch, f, d->pre, f,
                                  d->a, d->da, d->da, pass)
                : TS_OK;
}

static ts_err forward(ts_layer *l, const ts_layer_run *r) {
  ts_senet *d = l->data;
  const ts_value *x = l->in[0].value, *y = &l->out[0];
  float *last = d->pre ? d->pre : d->a;
  TS_DO(sum(l, r, d->z, NULL, 1 / (float)x->shape.dim));
  TS_DO(ts_rows_linear_forward(&d->squeeze, r, d->hidden, d->z));
  TS_DO(ts_rows_linear_forward(&d->excite, r, last, d->hidden));
  TS_DO(sigmoid(l, r, TS_FORWARD));
  return weigh(l, r, y->x, y->stride, d->a, x->x, x->stride, 1, false);
}

static ts_err backward(ts_layer *l, const ts_layer_run *r) {
  ts_senet *d = l->data;
  const ts_input *in = &l->in[0];
  const ts_value *x = in->value, *y = &l->out[0];
  TS_DO(sum(l, r, d->da, y->dx, 1));
  TS_DO(sigmoid(l, r, TS_BACKWARD));
  TS_DO(ts_rows_linear_backward(&d->excite, r, d->dhidden, d->da, d->hidden,
                                d->a));
  TS_DO(ts_rows_linear_backward(&d->squeeze, r, d->dz, d->dhidden, d->z,
                                d->hidden));
  if (!in->dx) return TS_OK;
  TS_DO(weigh(l, r, in->dx, x->stride, d->a, y->dx, y->stride, 1, false));
  return weigh(l, r, in->dx, x->stride, d->dz, NULL, 0, 1 / (float)x->shape.dim,
               true);
}

static double products(const ts_layer *l) {
  return ts_shape_width(l->out[0].shape);
}

const ts_layer_ops ts_layer_senet = {
    .kind = "senet",
    .keys = keys,
    .n_keys = sizeof keys / sizeof *keys,
    .options_bytes = sizeof(ts_senet_options),
    .data_bytes = sizeof(ts_senet),
    .least = 1,
    .most = 1,
    .wants_fields = true,
    .keeps_in = true,
    .any_stride = true,
    .shape = shape,
    .create = create,
    .destroy = destroy,
    .forward = forward,
    .backward = backward,
    .products = products,
    .page =
        "y_i = a_i x_i, a = relu(W_1 relu(W_0 z)), z_i the mean of x_i:\n"
        "fields weighed by all of them, as FuxiCTR's SqueezeExcitation\n"
        "\n"
        "  in    fields (B, F, d)\n"
        "  out   the same\n"
        "  NAME.0.weight (h, F), NAME.1.weight (F, h), h = F / reduction, 1\n"
        "        at least: uniform in +-1/sqrt(columns), as PyTorch's Linear\n"
        "        without bias\n"
        "  T. Huang, Z. Zhang, J. Zhang, \"FiBiNET\", RecSys 2019\n"};
