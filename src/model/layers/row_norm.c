/* row_norm.c - norms of rows: layer_norm, rms_norm, l2_norm. */
#include "model/row_norm.h"

typedef struct ts_row_norm_options {
  double eps;
  bool affine;
} ts_row_norm_options;

#define EPS(fallback, what)                                                    \
  {                                                                            \
    TS_SCOPE_LAYER, "eps", TS_KEY_FLOAT, offsetof(ts_row_norm_options, eps),   \
        fallback, "", 0, 1, NULL, what                                         \
  }
#define AFFINE(what)                                                           \
  {                                                                            \
    TS_SCOPE_LAYER, "affine", TS_KEY_BOOL,                                     \
        offsetof(ts_row_norm_options, affine), "true", "", 1, 0, NULL, what    \
  }

static const ts_key layer_keys[] = {
    EPS(TS_LAYER_NORM_EPS, "added to the variance"),
    AFFINE("whether weight and bias are there")};
static const ts_key rms_keys[] = {
    EPS(TS_RMS_NORM_EPS, "added to the mean of squares"),
    AFFINE("whether the weight is there")};
static const ts_key l2_keys[] = {EPS("1e-12", "the least length")};

typedef struct ts_row_norm_layer {
  ts_row_norm norm;
  ts_packed x;
} ts_row_norm_layer;

static ts_err shape(ts_layer *l) {
  return ts_layer_gives(l, NULL, l->in[0].value->shape);
}

static ts_err create_as(ts_layer *l, ts_norm_kind kind) {
  ts_row_norm_layer *d = l->data;
  const ts_row_norm_options *o = l->options;
  const ts_shape s = l->in[0].value->shape;
  TS_DO(ts_packed_take(&d->x, l, 0));
  return ts_row_norm_create(&d->norm, l,
                            &(ts_row_norm_spec){.kind = kind,
                                                .prefix = "",
                                                .n = s.dim,
                                                .rows_each = s.fields,
                                                .affine = o->affine,
                                                .eps = o->eps});
}

static ts_err create_layer(ts_layer *l, ts_lane *lane) {
  (void)lane;
  return create_as(l, TS_NORM_LAYER);
}

static ts_err create_rms(ts_layer *l, ts_lane *lane) {
  (void)lane;
  return create_as(l, TS_NORM_RMS);
}

static ts_err create_l2(ts_layer *l, ts_lane *lane) {
  (void)lane;
  return create_as(l, TS_NORM_L2);
}

static ts_err forward(ts_layer *l, const ts_layer_run *r) {
  ts_row_norm_layer *d = l->data;
  const ts_param *p = d->norm.p[0];
  const float *x;
  TS_DO(ts_packed_x(&d->x, l, r, 0, &x));
  if (p) TS_DO(ts_layer_begin(r, p, TS_FORWARD));
  TS_DO(ts_row_norm_forward(&d->norm, l, r, l->out[0].x, x));
  return p ? ts_layer_end(r, p, TS_FORWARD) : TS_OK;
}

static ts_err backward(ts_layer *l, const ts_layer_run *r) {
  ts_row_norm_layer *d = l->data;
  const ts_param *p = d->norm.p[0];
  const float *x;
  float *dx = ts_packed_dx(&d->x, l, 0);
  if (!dx && !p) return TS_OK;
  TS_DO(ts_packed_x(&d->x, l, r, 0, &x));
  if (p) TS_DO(ts_layer_begin(r, p, TS_BACKWARD));
  TS_DO(ts_row_norm_backward(&d->norm, l, r, dx ? dx : l->out[0].dx,
                             l->out[0].dx, x));
  if (dx) TS_DO(ts_packed_give(&d->x, l, r, 0));
  if (!p) return TS_OK;
  TS_DO(ts_layer_gave(r, d->norm.p, d->norm.p[1] ? 2 : 1));
  return ts_layer_end(r, p, TS_BACKWARD);
}

#define KIND(name, its_keys, its_create, text)                                 \
  const ts_layer_ops ts_layer_##name = {                                       \
      .kind = #name,                                                           \
      .tokens = TS_BY_ROW,                                                     \
      .keys = its_keys,                                                        \
      .n_keys = sizeof its_keys / sizeof *its_keys,                            \
      .options_bytes = sizeof(ts_row_norm_options),                            \
      .data_bytes = sizeof(ts_row_norm_layer),                                 \
      .least = 1,                                                              \
      .most = 1,                                                               \
      .keeps_in = true,                                                        \
      .shape = shape,                                                          \
      .create = its_create,                                                    \
      .forward = forward,                                                      \
      .backward = backward,                                                    \
      .page = text}
#define SHAPES                                                                 \
  "\n"                                                                         \
  "  in    vectors, side by side, or fields: then each field by itself\n"      \
  "  out   that shape\n"

KIND(layer_norm, layer_keys, create_layer,
     "y = (x - mean) / sqrt(var + eps) weight + bias, of a row: PyTorch's\n"
     "LayerNorm\n" SHAPES "  NAME.0.weight (n): 1, NAME.0.bias (n): 0\n"
     "  J. Ba et al., \"Layer Normalization\", 2016\n");
KIND(rms_norm, rms_keys, create_rms,
     "y = x / sqrt(mean of x^2 + eps) weight, of a row: PyTorch's "
     "RMSNorm\n" SHAPES "  NAME.0.weight (n): 1\n"
     "  B. Zhang, R. Sennrich, \"Root Mean Square Layer Normalization\",\n"
     "  NeurIPS 2019\n");
KIND(l2_norm, l2_keys, create_l2,
     "y = x / max(sqrt(sum of x^2), eps), of a row: PyTorch's "
     "normalize\n" SHAPES);
