/* field_attention.c - fields that look at each other (AutoInt).
 *
 * A layer, for each head, with q, k, v, e = W_q x, W_k x, W_v x, W_res x:
 *   s_ij = scale q_i . k_j, p_i = softmax(s_i), y_i = relu(sum p_ij v_j + e_i)
 * The four are one product of rows (B F, d), side by side. */
#include <math.h>

#include "base/mem.h"
#include "model/layer_ops.h"

typedef struct ts_attention_options {
  int32_t layers, heads, dim;
  bool scale, residual;
} ts_attention_options;

static const ts_key keys[] = {
    {TS_SCOPE_LAYER, "layers", TS_KEY_INT32,
     offsetof(ts_attention_options, layers), "1", "", 1, 1000, NULL,
     "how many, each with weights of its own"},
    {TS_SCOPE_LAYER, "heads", TS_KEY_INT32,
     offsetof(ts_attention_options, heads), "2", "", 1, 10000, NULL,
     "side by side"},
    {TS_SCOPE_LAYER, "dim", TS_KEY_INT32, offsetof(ts_attention_options, dim),
     "8", "", 1, 100000, NULL, "of one head"},
    {TS_SCOPE_LAYER, "scale", TS_KEY_BOOL,
     offsetof(ts_attention_options, scale), "false", "", 1, 0, NULL,
     "whether products are divided by sqrt(dim) before the softmax"},
    {TS_SCOPE_LAYER, "residual", TS_KEY_BOOL,
     offsetof(ts_attention_options, residual), "true", "", 1, 0, NULL,
     "whether the input is added, by W_res where its width is another"},
};

typedef struct ts_attention_layer {
  ts_rows_linear in;
  int32_t dim;   /* of a field of its input */
  int32_t parts; /* 3, or 4 with W_res */
  float *qkv;    /* (batch_max, F, parts A) */
  float *s;      /* (batch_max, heads, F, F) */
  float *y;      /* (batch_max, F, A); of the last one NULL: the output */
} ts_attention_layer;

typedef struct ts_attention {
  ts_attention_layer *layer;
  int32_t f, a; /* F, A = heads dim */
  float scale;
  ts_packed x;
  const float *first; /* what the first layer reads */
  float *p, *dp, *dqkv, *dx;
} ts_attention;

static ts_err shape(ts_layer *l) {
  const ts_attention_options *o = l->options;
  ts_attention *d = l->data;
  const ts_shape s = l->in[0].value->shape;
  const int64_t a = (int64_t)o->heads * o->dim;
  d->f = s.fields;
  d->scale = o->scale ? 1 / sqrtf((float)o->dim) : 1;
  if (4 * a * d->f > TS_WIDTH_MAX ||
      (int64_t)o->heads * d->f * d->f > TS_WIDTH_MAX)
    return ts_layer_fail(l,
                         "%d heads of %d numbers for %d fields: a sample has "
                         "%d numbers at most",
                         o->heads, o->dim, d->f, TS_WIDTH_MAX);
  d->a = (int32_t)a;
  return ts_layer_gives(l, NULL, ts_fields_of(d->f, d->a));
}

static ts_err take(ts_layer *l, float **p, int64_t n) {
  return ts_layer_take(l, p, (int64_t)l->spec->batch_max * n, sizeof **p);
}

static ts_err create_layer(ts_layer *l, int32_t i, ts_lane *lane) {
  const ts_attention_options *o = l->options;
  const ts_attention *d = l->data;
  ts_attention_layer *k = &d->layer[i];
  k->dim = i ? d->a : l->in[0].value->shape.dim;
  k->parts = o->residual && k->dim != d->a ? 4 : 3;
  const int32_t n = k->parts * d->a;
  TS_DO(ts_rows_linear_make(&k->in, l, i, k->dim, k->dim, n, d->f, 0, lane));
  TS_DO(take(l, &k->qkv, (int64_t)d->f * n));
  TS_DO(take(l, &k->s, (int64_t)o->heads * d->f * d->f));
  return i + 1 < o->layers ? take(l, &k->y, (int64_t)d->f * d->a) : TS_OK;
}

static ts_err create(ts_layer *l, ts_lane *lane) {
  const ts_attention_options *o = l->options;
  ts_attention *d = l->data;
  const int64_t pairs = (int64_t)o->heads * d->f * d->f;
  TS_DO(ts_mem_many(d->layer, o->layers, DENSE));
  for (int32_t i = 0; i < o->layers; i++) TS_DO(create_layer(l, i, lane));
  TS_DO(ts_packed_take(&d->x, l, 0));
  TS_DO(take(l, &d->p, pairs));
  if (!l->spec->training) return TS_OK;
  TS_DO(take(l, &d->dp, pairs));
  TS_DO(take(l, &d->dqkv, 4ll * d->f * d->a));
  return o->layers > 1 ? take(l, &d->dx, (int64_t)d->f * d->a) : TS_OK;
}

static void destroy(ts_layer *l) {
  const ts_attention_options *o = l->options;
  ts_attention *d = l->data;
  for (int32_t i = 0; d->layer && i < o->layers; i++)
    ts_rows_linear_reset(&d->layer[i].in);
  ts_mem_free(d->layer);
}

/* C[b, h, i, j] = scale * sum over k of A and B there. */
static ts_err product(const ts_layer *l, const ts_layer_run *r, float *c,
                      ts_stride4 cs, const float *a, ts_stride4 as,
                      const float *b, ts_stride4 bs, int32_t n_j, int32_t n_k,
                      float scale) {
  const ts_attention_options *o = l->options;
  const ts_attention *d = l->data;
  return ts_run_products(l, r, c, cs, a, as, b, bs,
                         (ts_sizes){r->batch, o->heads, d->f, n_j, n_k}, scale,
                         false);
}

/* Strides of rows of fields of ROW floats, and of pairs of fields; the same
 * with the last two the other way round. */
static ts_stride4 rows_of(const ts_layer *l, int64_t row) {
  const ts_attention_options *o = l->options;
  const ts_attention *d = l->data;
  return (ts_stride4){.b = d->f * row, .h = o->dim, .r = row, .c = 1};
}
static ts_stride4 pairs_of(const ts_layer *l) {
  const ts_attention_options *o = l->options;
  const int64_t f = ((const ts_attention *)l->data)->f;
  return (ts_stride4){.b = o->heads * f * f, .h = f * f, .r = f, .c = 1};
}
static ts_stride4 turned(ts_stride4 s) {
  return (ts_stride4){s.b, s.h, s.c, s.r};
}

/* p of s, or ds of dp in its place. */
static ts_err softmax(const ts_layer *l, const ts_layer_run *r,
                      const ts_attention_layer *k, ts_pass pass) {
  const ts_attention_options *o = l->options;
  const ts_attention *d = l->data;
  return ts_run_softmax(l, r, (int64_t)r->batch * o->heads * d->f, d->f, k->s,
                        d->p, d->dp, pass);
}

/* Rows (B F) of N floats: TO = (+= where ADD) FROM. */
static ts_err copy_rows(const ts_layer *l, const ts_layer_run *r, float *to,
                        int64_t to_stride, const float *from,
                        int64_t from_stride, int32_t n, bool add) {
  ts_layer_run rows = *r;
  rows.batch *= ((const ts_attention *)l->data)->f;
  return ts_run_copy(l, &rows, to, to_stride, from, from_stride, n, add);
}

static ts_err relu(const ts_layer *l, const ts_layer_run *r, float *y,
                   float *dy) {
  const ts_attention *d = l->data;
  return ts_run_act_rows(l, r, TS_ACT_RELU, (int64_t)r->batch * d->f, d->a, y,
                         d->a, y, dy, dy, dy ? TS_BACKWARD : TS_FORWARD);
}

/* The output is part of a graph: its place is known as it runs. */
static float *output_of(const ts_layer *l, const ts_attention_layer *k) {
  return k->y ? k->y : l->out[0].x;
}

static const float *input_of(const ts_attention *d, int32_t i) {
  return i ? d->layer[i - 1].y : d->first;
}

static ts_err layer_forward(ts_layer *l, const ts_layer_run *r, int32_t i) {
  const ts_attention_options *o = l->options;
  const ts_attention *d = l->data;
  ts_attention_layer *k = &d->layer[i];
  const int64_t row = (int64_t)k->parts * d->a;
  const ts_stride4 qs = rows_of(l, row), ys = rows_of(l, d->a);
  const float *x = input_of(d, i), *v = k->qkv + 2ll * d->a;
  float *y = output_of(l, k);
  TS_DO(ts_rows_linear_forward(&k->in, r, k->qkv, x));
  TS_DO(product(l, r, k->s, pairs_of(l), k->qkv, qs, k->qkv + d->a, qs, d->f,
                o->dim, d->scale));
  TS_DO(softmax(l, r, k, TS_FORWARD));
  TS_DO(
      product(l, r, y, ys, d->p, pairs_of(l), v, turned(qs), o->dim, d->f, 1));
  if (k->parts == 4)
    TS_DO(copy_rows(l, r, y, d->a, v + d->a, row, d->a, true));
  else if (o->residual)
    TS_DO(copy_rows(l, r, y, d->a, x, d->a, d->a, true));
  return relu(l, r, y, NULL);
}

static ts_err forward(ts_layer *l, const ts_layer_run *r) {
  const ts_attention_options *o = l->options;
  ts_attention *d = l->data;
  TS_DO(ts_packed_x(&d->x, l, r, 0, &d->first));
  for (int32_t i = 0; i < o->layers; i++) TS_DO(layer_forward(l, r, i));
  return TS_OK;
}

/* DX (B, F, dim of its input), which may be NULL, from DY, which is
 * overwritten. */
static ts_err layer_backward(ts_layer *l, const ts_layer_run *r, int32_t i,
                             float *dx, float *dy) {
  const ts_attention_options *o = l->options;
  const ts_attention *d = l->data;
  ts_attention_layer *k = &d->layer[i];
  const int64_t row = (int64_t)k->parts * d->a;
  const ts_stride4 qs = rows_of(l, row), ys = rows_of(l, d->a);
  const ts_stride4 ps = pairs_of(l);
  float *dv = d->dqkv + 2ll * d->a;
  TS_DO(relu(l, r, output_of(l, k), dy));
  TS_DO(softmax(l, r, k, TS_FORWARD)); /* p once more */
  TS_DO(
      product(l, r, dv, qs, d->p, turned(ps), dy, turned(ys), o->dim, d->f, 1));
  TS_DO(product(l, r, d->dp, ps, dy, ys, k->qkv + 2ll * d->a, qs, d->f, o->dim,
                1));
  TS_DO(softmax(l, r, k, TS_BACKWARD));
  TS_DO(product(l, r, d->dqkv, qs, d->dp, ps, k->qkv + d->a, turned(qs), o->dim,
                d->f, d->scale));
  TS_DO(product(l, r, d->dqkv + d->a, qs, d->dp, turned(ps), k->qkv, turned(qs),
                o->dim, d->f, d->scale));
  if (k->parts == 4)
    TS_DO(copy_rows(l, r, dv + d->a, row, dy, d->a, d->a, false));
  TS_DO(
      ts_rows_linear_backward(&k->in, r, dx, d->dqkv, input_of(d, i), k->qkv));
  if (!dx || !o->residual || k->parts == 4) return TS_OK;
  return copy_rows(l, r, dx, d->a, dy, d->a, d->a, true);
}

static ts_err backward(ts_layer *l, const ts_layer_run *r) {
  const ts_attention_options *o = l->options;
  const ts_attention *d = l->data;
  float *dy = l->out[0].dx;
  for (int32_t i = o->layers - 1; i > 0; i--) {
    /* From one array into the other. */
    float *to = dy == d->dx ? l->out[0].dx : d->dx;
    TS_DO(layer_backward(l, r, i, to, dy));
    dy = to;
  }
  TS_DO(layer_backward(l, r, 0, ts_packed_dx(&d->x, l, 0), dy));
  return ts_packed_give(&d->x, l, r, 0);
}

/* Besides one for each weight, which F fields share. */
static double products(const ts_layer *l) {
  const ts_attention_options *o = l->options;
  const ts_attention *d = l->data;
  const double f = d->f, a = d->a;
  double sum = 0;
  for (int32_t i = 0; i < o->layers; i++) {
    const double dim = i ? a : l->in[0].value->shape.dim;
    sum += (f - 1) * dim * a * (o->residual && dim != a ? 4 : 3);
  }
  return sum + o->layers * 2 * f * f * a;
}

const ts_layer_ops ts_layer_field_attention = {
    .kind = "field_attention",
    .keys = keys,
    .n_keys = sizeof keys / sizeof *keys,
    .options_bytes = sizeof(ts_attention_options),
    .data_bytes = sizeof(ts_attention),
    .least = 1,
    .most = 1,
    .wants_fields = true,
    .keeps_in = true,
    .keeps_out = true,
    .shape = shape,
    .create = create,
    .destroy = destroy,
    .forward = forward,
    .backward = backward,
    .products = products,
    .page =
        "For each head y_i = relu(sum over j of p_ij W_v x_j + W_res x_i),\n"
        "p_i = softmax over j of (W_q x_i) . (W_k x_j), the heads side by\n"
        "side: AutoInt's interacting layers, as FuxiCTR's\n"
        "MultiHeadSelfAttention has them, without dropout and layer norm;\n"
        "where the widths are equal x_i itself is added, without W_res\n"
        "\n"
        "  in    fields (B, F, d)\n"
        "  out   fields (B, F, heads dim)\n"
        "  NAME.l.weight (3 heads dim, n), n the width of layer l's fields:\n"
        "        W_q, W_k, W_v below each other, each (heads dim, n), and\n"
        "        with W_res 4 of them: uniform in +-1/sqrt(n), as PyTorch's\n"
        "        Linear without bias\n"
        "  A sample keeps F (4 heads dim + heads F) floats of each layer.\n"
        "  W. Song et al., \"AutoInt: Automatic Feature Interaction Learning\n"
        "  via Self-Attentive Neural Networks\", CIKM 2019\n"};
