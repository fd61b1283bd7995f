/* multiply.c - y = the product of its inputs, element by element. */
#include "model/layer_ops.h"

typedef struct ts_multiply {
  float *product; /* (batch_max, width): for gradients of what repeats */
} ts_multiply;

/* How often an input's numbers are taken. */
typedef enum { EACH, A_FIELD, A_SAMPLE, NONE } ts_repeat;

static ts_repeat repeat_of(const ts_layer *l, int32_t k, ts_shape y) {
  const ts_shape x = l->in[k].value->shape;
  if (x.fields == y.fields && x.dim == y.dim) return EACH;
  if (ts_shape_width(x) == 1) return A_SAMPLE;
  return x.form == TS_VECTOR && x.dim == y.fields ? A_FIELD : NONE;
}

static ts_stride4 strides_of(const ts_layer *l, int32_t k) {
  const ts_shape y = l->out[0].shape;
  const int64_t b = l->in[k].value->stride;
  switch (repeat_of(l, k, y)) {
  case EACH:
    return (ts_stride4){.b = b, .r = y.dim, .c = 1};
  case A_FIELD:
    return (ts_stride4){.b = b, .r = 1};
  default:
    return (ts_stride4){.b = b};
  }
}

static ts_err shape(ts_layer *l) {
  char a[TS_SHAPE_BYTES], b[TS_SHAPE_BYTES];
  const ts_value *most = l->in[0].value;
  for (int32_t k = 1; k < l->n_in[TS_ROLE_IN]; k++)
    if (ts_shape_width(l->in[k].value->shape) > ts_shape_width(most->shape))
      most = l->in[k].value;
  for (int32_t k = 0; k < l->n_in[TS_ROLE_IN]; k++)
    if (repeat_of(l, k, most->shape) == NONE)
      return ts_layer_fail(
          l,
          "\"%.80s\" is %s, but \"%.80s\" is %s: it takes inputs of one shape, "
          "and beside fields (B, F, d) vectors (B, F) and (B, 1)",
          most->name, ts_layer_shape_text(a, most->shape), l->in[k].value->name,
          ts_layer_shape_text(b, l->in[k].value->shape));
  return ts_layer_gives(l, NULL, most->shape);
}

static ts_err create(ts_layer *l, ts_lane *lane) {
  (void)lane;
  ts_multiply *d = l->data;
  return ts_layer_take(l, &d->product,
                       (int64_t)l->spec->batch_max * l->out[0].stride, 4);
}

/* Y = A times input K; input K alone where A is NULL. */
static ts_err times(const ts_layer *l, const ts_layer_run *r, float *y,
                    const float *a, int32_t k) {
  const ts_value *out = &l->out[0];
  const ts_stride4 rows = {.b = out->stride, .r = out->shape.dim, .c = 1};
  const ts_map_args m = {.y = y,
                         .a = l->in[k].value->x,
                         .x = a,
                         .ys = rows,
                         .as = strides_of(l, k),
                         .xs = rows,
                         .n_b = r->batch,
                         .n_h = 1,
                         .n_i = out->shape.fields,
                         .n_j = out->shape.dim,
                         .op = TS_MAP_MULTIPLY,
                         .scale = 1};
  return ts_run_map(l, r, &m);
}

static ts_err forward(ts_layer *l, const ts_layer_run *r) {
  float *y = l->out[0].x;
  TS_DO(times(l, r, y, NULL, 0));
  for (int32_t k = 1; k < l->n_in[TS_ROLE_IN]; k++) TS_DO(times(l, r, y, y, k));
  return TS_OK;
}

/* The sum of PRODUCT over what takes the same number of input K. */
static ts_err add_up(const ts_layer *l, const ts_layer_run *r, int32_t k) {
  const ts_multiply *d = l->data;
  const ts_value *y = &l->out[0];
  const ts_repeat by = repeat_of(l, k, y->shape);
  const int32_t n = by == A_SAMPLE  ? 1
                    : by == A_FIELD ? y->shape.fields
                                    : ts_shape_width(y->shape);
  const int32_t each = ts_shape_width(y->shape) / n;
  const ts_contract_args a = {.c = l->in[k].dx,
                              .a = d->product,
                              .cs = {.b = l->in[k].value->stride, .r = 1},
                              .as = {.b = y->stride, .r = each, .c = 1},
                              .n_b = r->batch,
                              .n_k = each,
                              .n_h = 1,
                              .n_i = n,
                              .n_j = 1,
                              .scale = 1};
  return ts_run_contract(l, r, &a);
}

static ts_err backward(ts_layer *l, const ts_layer_run *r) {
  const ts_multiply *d = l->data;
  const int32_t n = l->n_in[TS_ROLE_IN];
  for (int32_t k = 0; k < n; k++) {
    const float *from = l->out[0].dx;
    if (!l->in[k].dx) continue;
    for (int32_t j = 0; j < n; j++) {
      if (j == k) continue;
      TS_DO(times(l, r, d->product, from, j));
      from = d->product;
    }
    if (n == 1)
      TS_DO(ts_run_copy(l, r, d->product, l->out[0].stride, from,
                        l->out[0].stride, ts_shape_width(l->out[0].shape),
                        false));
    TS_DO(add_up(l, r, k));
  }
  return TS_OK;
}

static double products(const ts_layer *l) {
  return (double)(l->n_in[TS_ROLE_IN] - 1) * ts_shape_width(l->out[0].shape);
}

const ts_layer_ops ts_layer_multiply = {
    .kind = "multiply",
    .tokens = TS_BY_ROW,
    .data_bytes = sizeof(ts_multiply),
    .least = 1,
    .keeps_in = true,
    .shape = shape,
    .create = create,
    .forward = forward,
    .backward = backward,
    .products = products,
    .page =
        "y = x_1 x_2 .. x_k, element by element\n"
        "\n"
        "  in    inputs of one shape; a vector (B, 1) multiplies all numbers\n"
        "        of a sample, beside fields (B, F, d) a vector (B, F) all of\n"
        "        a field\n"
        "  out   the shape of the widest\n"};
