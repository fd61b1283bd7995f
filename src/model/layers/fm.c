/* fm.c - the second order of a factorisation machine. */
#include <string.h>

#include "model/layer_ops.h"

typedef struct ts_fm_options {
  int over; /* 0 coordinate, 1 all */
  bool reduce;
} ts_fm_options;

static const ts_key keys[] = {
    {TS_SCOPE_LAYER, "over", TS_KEY_CHOICE, offsetof(ts_fm_options, over),
     "\"coordinate\"", "", 1, 0, "coordinate|all",
     "the vectors, coordinate by coordinate, or all numbers of a row, as "
     "TorchRec's SimpleDeepFMNN has it"},
    {TS_SCOPE_LAYER, "reduce", TS_KEY_BOOL, offsetof(ts_fm_options, reduce),
     "true", "", 1, 0, NULL,
     "the sum over coordinates; false: the vector, as NFM has it"},
};

typedef struct ts_fm {
  float *sum, *square; /* (batch_max, d), where it doesn't reduce */
} ts_fm;

static ts_err shape(ts_layer *l) {
  const ts_fm_options *o = l->options;
  const ts_shape s = l->in[0].value->shape;
  if (o->over == 1 && !o->reduce)
    return ts_layer_fail(l, "over = \"all\" gives one number: reduce = false "
                            "is for over = \"coordinate\"");
  return ts_layer_gives(l, NULL, ts_vector_of(o->reduce ? 1 : s.dim));
}

static ts_err create(ts_layer *l, ts_lane *lane) {
  (void)lane;
  const ts_fm_options *o = l->options;
  ts_fm *d = l->data;
  const int64_t n = (int64_t)l->spec->batch_max * l->in[0].value->shape.dim;
  if (o->reduce) return TS_OK;
  TS_DO(ts_layer_take(l, &d->sum, n, 4));
  return ts_layer_take(l, &d->square, n, 4);
}

static ts_fm_args machine(const ts_layer *l, const ts_layer_run *r) {
  const ts_fm_options *o = l->options;
  const ts_value *x = l->in[0].value;
  const int32_t dim = o->over ? 1 : x->shape.dim;
  return (ts_fm_args){.x = x->x,
                      .dx = l->in[0].dx,
                      .out = l->out[0].x,
                      .grad = l->out[0].dx,
                      .n_vectors = ts_shape_width(x->shape) / dim,
                      .dim = dim,
                      .stride = x->stride,
                      .out_stride = 1,
                      .batch = r->batch};
}

/* Y (B, d) = FACTOR a x there, added where ADD. */
static ts_err times(const ts_layer *l, const ts_layer_run *r, float *y,
                    const float *a, const float *x, float factor, bool add) {
  const int32_t d = l->in[0].value->shape.dim;
  const ts_stride4 rows = {.b = d, .c = 1};
  const ts_map_args m = {.y = y,
                         .a = a,
                         .x = x,
                         .ys = rows,
                         .as = rows,
                         .xs = rows,
                         .n_b = r->batch,
                         .n_h = 1,
                         .n_i = 1,
                         .n_j = d,
                         .op = TS_MAP_MULTIPLY,
                         .scale = factor,
                         .add = add};
  return ts_run_map(l, r, &m);
}

static ts_err forward(ts_layer *l, const ts_layer_run *r) {
  const ts_fm_options *o = l->options;
  const ts_fm *d = l->data;
  const ts_value *x = l->in[0].value;
  const int32_t dim = x->shape.dim;
  const ts_fm_args fm = machine(l, r);
  if (o->reduce) return ts_run_fm(l, r, &fm, TS_FORWARD);
  ts_contract_args sum = {.c = d->sum,
                          .a = x->x,
                          .cs = {.b = dim, .h = 1},
                          .as = {.b = x->stride, .h = 1, .c = dim},
                          .bs = {.b = x->stride, .h = 1, .c = dim},
                          .n_b = r->batch,
                          .n_k = x->shape.fields,
                          .n_h = dim,
                          .n_i = 1,
                          .n_j = 1,
                          .scale = 1};
  TS_DO(ts_run_contract(l, r, &sum));
  sum.c = d->square;
  sum.b = x->x;
  TS_DO(ts_run_contract(l, r, &sum));
  TS_DO(times(l, r, l->out[0].x, d->sum, d->sum, 0.5f, false));
  return times(l, r, l->out[0].x, d->square, NULL, -0.5f, true);
}

/* dx_vd = dy_d (sum_d - x_vd). */
static ts_err backward(ts_layer *l, const ts_layer_run *r) {
  const ts_fm_options *o = l->options;
  const ts_fm *d = l->data;
  const ts_input *in = &l->in[0];
  const int32_t stride = in->value->stride, dim = in->value->shape.dim;
  const ts_fm_args fm = machine(l, r);
  if (!in->dx) return TS_OK;
  if (o->reduce) {
    const size_t bytes = (size_t)r->batch * (size_t)stride * 4;
    if (!in->add) TS_DO(ts_run_zero(l, r, in->dx, bytes));
    return ts_run_fm(l, r, &fm, TS_BACKWARD);
  }
  ts_map_args m = {.y = in->dx,
                   .a = l->out[0].dx,
                   .x = d->sum,
                   .ys = {.b = stride, .r = dim, .c = 1},
                   .as = {.b = dim, .c = 1},
                   .xs = {.b = dim, .c = 1},
                   .n_b = r->batch,
                   .n_h = 1,
                   .n_i = in->value->shape.fields,
                   .n_j = dim,
                   .op = TS_MAP_MULTIPLY,
                   .scale = 1,
                   .add = in->add};
  TS_DO(ts_run_map(l, r, &m));
  m.x = in->value->x;
  m.xs = m.ys;
  m.scale = -1;
  m.add = true;
  return ts_run_map(l, r, &m);
}

static double products(const ts_layer *l) {
  return 2.0 * ts_shape_width(l->in[0].value->shape);
}

const ts_layer_ops ts_layer_fm = {
    .kind = "fm",
    .keys = keys,
    .n_keys = sizeof keys / sizeof *keys,
    .options_bytes = sizeof(ts_fm_options),
    .data_bytes = sizeof(ts_fm),
    .least = 1,
    .most = 1,
    .wants_fields = true,
    .keeps_in = true,
    .adds_dx = true,
    .shape = shape,
    .create = create,
    .forward = forward,
    .backward = backward,
    .products = products,
    .page = "y = 1/2 sum over d of ((sum over f of x_fd)^2 - sum over f of\n"
            "x_fd^2): all products of two vectors, x_f . x_g for f < g\n"
            "\n"
            "  in    fields (B, F, d)\n"
            "  out   (B, 1); with reduce = false (B, d)\n"
            "  S. Rendle, \"Factorization Machines\", ICDM 2010\n"};
