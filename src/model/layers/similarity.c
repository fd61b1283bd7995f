/* similarity.c - how alike two vectors are: of two towers, the score. */
#include "model/layer_ops.h"

typedef struct ts_similarity_options {
  int by; /* 0 dot, 1 cosine */
} ts_similarity_options;

static const ts_key keys[] = {
    {TS_SCOPE_LAYER, "by", TS_KEY_CHOICE, offsetof(ts_similarity_options, by),
     "\"dot\"", "", 1, 0, "dot|cosine",
     "their product, or that of their directions"},
};

/* Both (batch_max, n) of unit length, for cosine; their gradient. */
typedef struct ts_similarity {
  float *unit[2], *grad;
} ts_similarity;

static ts_err shape(ts_layer *l) {
  char a[TS_SHAPE_BYTES], b[TS_SHAPE_BYTES];
  const ts_value *x = l->in[0].value, *z = l->in[1].value;
  if (ts_shape_width(x->shape) != ts_shape_width(z->shape))
    return ts_layer_fail(l,
                         "\"%.80s\" is %s, but \"%.80s\" is %s: it takes two "
                         "vectors of one width",
                         x->name, ts_layer_shape_text(a, x->shape), z->name,
                         ts_layer_shape_text(b, z->shape));
  return ts_layer_gives(l, NULL, ts_vector_of(1));
}

static int32_t width_of(const ts_layer *l) {
  return ts_shape_width(l->in[0].value->shape);
}

static ts_err create(ts_layer *l, ts_lane *lane) {
  (void)lane;
  ts_similarity *d = l->data;
  const ts_similarity_options *o = l->options;
  const int64_t n = (int64_t)l->spec->batch_max * width_of(l);
  if (!o->by) return TS_OK;
  for (int k = 0; k < 2; k++) TS_DO(ts_layer_take(l, &d->unit[k], n, 4));
  return ts_layer_take(l, &d->grad, n, 4);
}

static ts_norm_args norm_of(const ts_layer *l, const ts_layer_run *r, int k) {
  const ts_similarity *d = l->data;
  const ts_input *in = &l->in[k];
  return (ts_norm_args){.x = in->value->x,
                        .y = d->unit[k],
                        .dy = d->grad,
                        .dx = in->dx,
                        .rows = r->batch,
                        .x_stride = in->value->stride,
                        .y_stride = width_of(l),
                        .n = width_of(l),
                        .kind = TS_NORM_L2,
                        .eps = 1e-8f,
                        .scale = 1};
}

/* What is multiplied. */
static ts_rows side(const ts_layer *l, int k) {
  const ts_similarity *d = l->data;
  const ts_value *x = l->in[k].value;
  return d->unit[k] ? (ts_rows){d->unit[k], width_of(l)}
                    : (ts_rows){x->x, x->stride};
}

static ts_err forward(ts_layer *l, const ts_layer_run *r) {
  const ts_similarity *d = l->data;
  const ts_rows x = side(l, 0), z = side(l, 1);
  const ts_contract_args a = {.c = l->out[0].x,
                              .a = x.p,
                              .b = z.p,
                              .cs = {.b = 1},
                              .as = {.b = x.stride, .c = 1},
                              .bs = {.b = z.stride, .c = 1},
                              .n_b = r->batch,
                              .n_k = width_of(l),
                              .n_h = 1,
                              .n_i = 1,
                              .n_j = 1,
                              .scale = 1};
  for (int k = 0; d->grad && k < 2; k++) {
    const ts_norm_args norm = norm_of(l, r, k);
    TS_DO(ts_run_norm(l, r, &norm, TS_FORWARD));
  }
  return ts_run_contract(l, r, &a);
}

static ts_err backward(ts_layer *l, const ts_layer_run *r) {
  const ts_similarity *d = l->data;
  const int32_t n = width_of(l);
  for (int k = 0; k < 2; k++) {
    const ts_input *in = &l->in[k];
    const ts_rows other = side(l, !k);
    const ts_norm_args norm = norm_of(l, r, k);
    const ts_map_args a = {.y = d->grad ? d->grad : in->dx,
                           .a = other.p,
                           .x = l->out[0].dx,
                           .ys = {.b = d->grad ? n : in->value->stride, .c = 1},
                           .as = {.b = other.stride, .c = 1},
                           .xs = {.b = 1},
                           .n_b = r->batch,
                           .n_h = 1,
                           .n_i = 1,
                           .n_j = n,
                           .op = TS_MAP_MULTIPLY,
                           .scale = 1};
    if (!in->dx) continue;
    TS_DO(ts_run_map(l, r, &a));
    if (d->grad) TS_DO(ts_run_norm(l, r, &norm, TS_BACKWARD));
  }
  return TS_OK;
}

static double products(const ts_layer *l) {
  return width_of(l);
}

const ts_layer_ops ts_layer_similarity = {
    .kind = "similarity",
    .keys = keys,
    .n_keys = sizeof keys / sizeof *keys,
    .options_bytes = sizeof(ts_similarity_options),
    .data_bytes = sizeof(ts_similarity),
    .least = 2,
    .most = 2,
    .keeps_in = true,
    .shape = shape,
    .create = create,
    .forward = forward,
    .backward = backward,
    .products = products,
    .page = "y = x_1 . x_2; with by = \"cosine\" of x / max(|x|, 1e-8)\n"
            "\n"
            "  in    two vectors of one width\n"
            "  out   (B, 1)\n"};
