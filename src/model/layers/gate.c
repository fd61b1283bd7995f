/* gate.c - the ops of kind gate: GDCN's gated cross layers, and MaskNet's mask
 * blocks (gate_mask.c). */
#include "model/layers/gate.h"

#include "base/mem.h"

static const ts_key keys[] = {
    {TS_SCOPE_LAYER, "form", TS_KEY_CHOICE, offsetof(ts_gate_options, form),
     "\"cross\"", "", 1, 0, "cross|mask",
     "gated cross layers, or a mask block"},
    {TS_SCOPE_LAYER, "layers", TS_KEY_INT32, offsetof(ts_gate_options, layers),
     "3", "", 1, 1000, NULL, "cross: how many"},
    {TS_SCOPE_LAYER, "units", TS_KEY_INT32, offsetof(ts_gate_options, units),
     "0", "outputs", 0, 1000000, NULL, "mask: width of its output"},
    {TS_SCOPE_LAYER, "hidden", TS_KEY_INT32, offsetof(ts_gate_options, hidden),
     "0", "outputs", 0, 1000000, NULL,
     "mask: width of the layer that makes the mask; 0: as the mask itself"},
    {TS_SCOPE_LAYER, "norm", TS_KEY_BOOL, offsetof(ts_gate_options, norm),
     "true", "", 1, 0, NULL, "mask: whether a layer norm is before the relu"},
};

static bool masks(const ts_layer *l) {
  const ts_gate_options *o = l->options;
  return o->form == TS_GATE_MASK;
}

static ts_err shape(ts_layer *l) {
  const ts_gate_options *o = l->options;
  const ts_shape s = l->in[0].value->shape;
  if (masks(l) && !o->units)
    return ts_layer_fail(l, "form = \"mask\" needs units");
  if (!masks(l) && (o->units || o->hidden))
    return ts_layer_fail(l, "units and hidden are for form = \"mask\"");
  if (!masks(l) && l->n_in[TS_ROLE_GATE])
    return ts_layer_fail(l, "gate is for form = \"mask\"");
  if (l->n_in[TS_ROLE_GATE] > 1)
    return ts_layer_fail(l, "gate is one value; kind concat puts several side "
                            "by side");
  return ts_layer_gives(l, NULL,
                        ts_vector_of(masks(l) ? o->units : ts_shape_width(s)));
}

/* ---- gated cross layers -------------------------------------------------- */

/* Y = a x, added where ADD. */
static ts_err times(const ts_layer *l, const ts_layer_run *r, ts_rows y,
                    ts_rows a, ts_rows x, int32_t n, bool add) {
  return ts_run_rows(l, r, TS_MAP_MULTIPLY, y, 1, a, x, n, add);
}

static ts_rows input_rows(const ts_layer *l) {
  return (ts_rows){l->in[0].value->x, l->in[0].value->stride};
}

static ts_rows rows(const ts_layer *l, float *x) {
  return (ts_rows){x, l->out[0].stride};
}

/* What layer I reads. */
static ts_rows below(const ts_layer *l, int32_t i) {
  const ts_gate *d = l->data;
  return i ? rows(l, d->layer[i - 1].y) : input_rows(l);
}

static ts_err create_layer(ts_layer *l, int32_t i, ts_lane *lane) {
  const ts_gate_options *o = l->options;
  ts_gate *d = l->data;
  ts_gate_layer *k = &d->layer[i];
  const int32_t n = ts_shape_width(l->out[0].shape);
  const int64_t all = (int64_t)l->spec->batch_max * n;
  const int32_t stride = i ? n : l->in[0].value->stride;
  TS_DO(ts_rows_linear_make(&k->cross, l, 2 * i, n, stride, n, 1, TS_ROWS_BIAS,
                            lane));
  TS_DO(ts_rows_linear_make(&k->gate, l, 2 * i + 1, n, stride, n, 1, 0, lane));
  TS_DO(ts_layer_take(l, &k->t, all, 4));
  TS_DO(ts_layer_take(l, &k->s, all, 4));
  TS_DO(ts_layer_take(l, &k->g, all, 4));
  return i + 1 < o->layers ? ts_layer_take(l, &k->y, all, 4) : TS_OK;
}

static ts_err create(ts_layer *l, ts_lane *lane) {
  const ts_gate_options *o = l->options;
  ts_gate *d = l->data;
  const int64_t n = l->spec->batch_max, all = n * l->out[0].stride;
  if (masks(l)) return ts_gate_mask_create(l, lane);
  TS_DO(ts_mem_many(d->layer, o->layers, DENSE));
  for (int32_t i = 0; i < o->layers; i++) TS_DO(create_layer(l, i, lane));
  TS_DO(ts_layer_take(l, &d->q, all, 4));
  if (!l->spec->training) return TS_OK;
  TS_DO(ts_layer_take(l, &d->ds, all, 4));
  TS_DO(ts_layer_take(l, &d->dx0, all, 4));
  return ts_layer_take(l, &d->dx, n * l->in[0].value->stride, 4);
}

static void destroy(ts_layer *l) {
  const ts_gate_options *o = l->options;
  ts_gate *d = l->data;
  for (int k = 0; k < 3; k++) ts_rows_linear_reset(&d->mask[k]);
  for (int32_t i = 0; d->layer && i < o->layers; i++) {
    ts_rows_linear_reset(&d->layer[i].cross);
    ts_rows_linear_reset(&d->layer[i].gate);
  }
  ts_mem_free(d->layer);
}

static ts_err sigmoid(const ts_layer *l, const ts_layer_run *r,
                      const ts_gate_layer *k, ts_pass pass) {
  const ts_gate *d = l->data;
  return ts_run_act_rows(l, r, TS_ACT_SIGMOID, r->batch,
                         ts_shape_width(l->out[0].shape), k->s,
                         l->out[0].stride, k->g, d->ds, d->ds, pass);
}

static ts_err forward(ts_layer *l, const ts_layer_run *r) {
  const ts_gate_options *o = l->options;
  ts_gate *d = l->data;
  const int32_t n = ts_shape_width(l->out[0].shape);
  if (masks(l)) return ts_gate_mask_forward(l, r);
  for (int32_t i = 0; i < o->layers; i++) {
    ts_gate_layer *k = &d->layer[i];
    const ts_rows x = below(l, i), q = rows(l, d->q);
    const ts_rows y = rows(l, k->y ? k->y : l->out[0].x);
    TS_DO(ts_rows_linear_forward(&k->cross, r, k->t, x.p));
    TS_DO(ts_rows_linear_forward(&k->gate, r, k->s, x.p));
    TS_DO(sigmoid(l, r, k, TS_FORWARD));
    TS_DO(times(l, r, q, rows(l, k->t), rows(l, k->g), n, false));
    TS_DO(times(l, r, y, q, input_rows(l), n, false));
    TS_DO(ts_run_copy(l, r, y.p, y.stride, x.p, x.stride, n, true));
  }
  return TS_OK;
}

/* From dy = d->dy, which becomes the gradient of what the layer reads; dx0 +=
 * dy t g. */
static ts_err layer_backward(ts_layer *l, const ts_layer_run *r, int32_t i) {
  const ts_gate_options *o = l->options;
  ts_gate *d = l->data;
  ts_gate_layer *k = &d->layer[i];
  const int32_t n = ts_shape_width(l->out[0].shape);
  const ts_rows x = below(l, i), q = rows(l, d->q), ds = rows(l, d->ds);
  const ts_rows dy = rows(l, l->out[0].dx), t = rows(l, k->t);
  const ts_rows g = rows(l, k->g), dx = {d->dx, x.stride};
  TS_DO(times(l, r, q, t, g, n, false));
  TS_DO(times(l, r, rows(l, d->dx0), dy, q, n, i + 1 < o->layers));
  TS_DO(times(l, r, q, dy, input_rows(l), n, false));
  TS_DO(times(l, r, ds, q, t, n, false));
  TS_DO(times(l, r, q, q, g, n, false));
  TS_DO(sigmoid(l, r, k, TS_BACKWARD));
  TS_DO(ts_rows_linear_backward(&k->gate, r, dx.p, ds.p, x.p, k->s));
  TS_DO(ts_run_copy(l, r, dy.p, dy.stride, dx.p, dx.stride, n, true));
  TS_DO(ts_rows_linear_backward(&k->cross, r, dx.p, q.p, x.p, k->t));
  return ts_run_copy(l, r, dy.p, dy.stride, dx.p, dx.stride, n, true);
}

static ts_err backward(ts_layer *l, const ts_layer_run *r) {
  const ts_gate_options *o = l->options;
  const ts_gate *d = l->data;
  const ts_input *in = &l->in[0];
  const ts_value *y = &l->out[0];
  const int32_t n = ts_shape_width(y->shape);
  if (masks(l)) return ts_gate_mask_backward(l, r);
  for (int32_t i = o->layers - 1; i >= 0; i--) TS_DO(layer_backward(l, r, i));
  if (!in->dx) return TS_OK;
  TS_DO(
      ts_run_copy(l, r, in->dx, in->value->stride, y->dx, y->stride, n, false));
  return ts_run_copy(l, r, in->dx, in->value->stride, d->dx0, n, n, true);
}

/* By element. */
static double products(const ts_layer *l) {
  const ts_gate_options *o = l->options;
  const double n = ts_shape_width(l->in[0].value->shape);
  return masks(l) ? n : 2 * n * o->layers;
}

const ts_layer_ops ts_layer_gate = {
    .kind = "gate",
    .keys = keys,
    .n_keys = sizeof keys / sizeof *keys,
    .options_bytes = sizeof(ts_gate_options),
    .data_bytes = sizeof(ts_gate),
    .least = 1,
    .most = 1,
    .may = {[TS_ROLE_GATE] = true},
    .keeps_in = true,
    .keeps_out = true,
    .shape = shape,
    .create = create,
    .destroy = destroy,
    .forward = forward,
    .backward = backward,
    .products = products,
    .page =
        "cross: x_(l+1) = x_0 * (C_l x_l + b_l) * sigmoid(G_l x_l) + x_l, *\n"
        "by element: GDCN's gated cross layers, as FuxiCTR's\n"
        "GateCrossNetwork\n"
        "mask: y = relu(layer_norm(W (x * m))), m = W_1 relu(W_0 e + b_0) +\n"
        "b_1: MaskNet's mask block, as FuxiCTR's MaskBlock\n"
        "\n"
        "  in    vectors x, side by side: (B, n)\n"
        "  gate  of mask: e, (B, m), the embeddings in the paper; x where\n"
        "        the key is left out\n"
        "  out   (B, n); mask: (B, units)\n"
        "  cross: NAME.i.weight (n, n), NAME.i.bias (n) of C_l at i = 2 l,\n"
        "        NAME.i.weight of G_l at 2 l + 1\n"
        "  mask: NAME.0.weight (hidden, m), NAME.0.bias; NAME.1.weight (n,\n"
        "        hidden), NAME.1.bias; NAME.2.weight (units, n);\n"
        "        NAME.3.weight (units) 1, NAME.3.bias 0, of the norm, whose\n"
        "        eps is 1e-5\n"
        "  Weights and biases are uniform in +-1/sqrt(columns), as in\n"
        "  PyTorch's Linear.\n"
        "  F. Wang et al., \"Towards Deeper, Lighter and Interpretable Cross\n"
        "  Network for CTR Prediction\", CIKM 2023; Z. Wang et al.,\n"
        "  \"MaskNet: Introducing Feature-Wise Multiplication to CTR Ranking\n"
        "  Models by Instance-Guided Mask\", DLP-KDD 2021\n"};
