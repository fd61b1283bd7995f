/* outer_product.c - weighted sums of the outer product of each pair of fields:
 * PNN's.  A matrix for each pair is bilinear.c's; with a vector or a number w
 * there, products come first and weights then:
 *
 *   vec   t = x_i * x_j by element, num: t = x_i . x_j;  y = w . t */
#include <math.h>

#include "model/layers/bilinear.h"

enum { MAT, VEC, NUM };

typedef struct ts_outer_options {
  int form;
} ts_outer_options;

static const ts_key keys[] = {
    {TS_SCOPE_LAYER, "form", TS_KEY_CHOICE, offsetof(ts_outer_options, form),
     "\"mat\"", "", 1, 0, "mat|vec|num",
     "a matrix, a vector or a number of each pair"},
};

static int form_of(const ts_layer *l) {
  return ((const ts_outer_options *)l->options)->form;
}

/* Numbers of a pair's t and w. */
static int32_t each_of(const ts_layer *l) {
  return form_of(l) == NUM ? 1 : ((const ts_bilinear *)l->data)->d;
}

static ts_err shape(ts_layer *l) {
  ts_bilinear *d = l->data;
  TS_DO(ts_bilinear_sums_shape(l));
  if (form_of(l) == NUM) d->nt = d->pairs;
  return TS_OK;
}

static ts_err create(ts_layer *l, ts_lane *lane) {
  ts_bilinear *d = l->data;
  const int64_t n = (int64_t)l->spec->batch_max * d->nt;
  if (form_of(l) == MAT) return ts_bilinear_create(l, lane);
  TS_DO(ts_layer_param(l, &d->w, 0, false, "weight", (int32_t)d->pairs,
                       each_of(l), 1 / sqrt((double)d->d)));
  TS_DO(ts_layer_take(l, &d->t, n, 4));
  return l->spec->training ? ts_layer_take(l, &d->dt, n, 4) : TS_OK;
}

/* Of field i, with those behind it. */
typedef struct ts_side {
  int64_t t; /* of its first pair */
  int32_t others;
  const float *x, *others_x;
} ts_side;

static ts_side side_of(const ts_layer *l, int32_t i) {
  const ts_bilinear *d = l->data;
  const float *x = l->in[0].value->x + (int64_t)i * d->d;
  return (ts_side){.t = ((int64_t)i * d->f - (int64_t)i * (i + 1) / 2) *
                        each_of(l),
                   .others = d->f - 1 - i,
                   .x = x,
                   .others_x = x + d->d};
}

/* Of the vectors of a sample, one below the other; and of one of them. */
static ts_stride4 x_rows(const ts_layer *l) {
  const ts_bilinear *d = l->data;
  return (ts_stride4){.b = l->in[0].value->stride, .r = d->d, .c = 1};
}
static ts_stride4 x_row(const ts_layer *l) {
  return (ts_stride4){.b = l->in[0].value->stride, .c = 1};
}

/* t_ij of all j. */
static ts_err multiply(const ts_layer *l, const ts_layer_run *r, int32_t i) {
  const ts_bilinear *d = l->data;
  const ts_side s = side_of(l, i);
  if (form_of(l) == VEC)
    return ts_run_times(l, r, d->t + s.t,
                        (ts_stride4){.b = d->nt, .r = d->d, .c = 1}, s.x,
                        x_row(l), s.others_x, x_rows(l),
                        (ts_sizes){r->batch, 1, s.others, d->d, 1}, 1, false);
  return ts_run_products(
      l, r, d->t + s.t, (ts_stride4){.b = d->nt, .h = 1}, s.x, x_row(l),
      s.others_x, (ts_stride4){.b = l->in[0].value->stride, .h = d->d, .c = 1},
      (ts_sizes){r->batch, s.others, 1, 1, d->d}, 1, false);
}

/* y = w . t of all pairs. */
static ts_err weigh(const ts_layer *l, const ts_layer_run *r) {
  const ts_bilinear *d = l->data;
  const int32_t n = each_of(l), pairs = (int32_t)d->pairs;
  const ts_rows y = {l->out[0].x, l->out[0].stride}, t = {d->t, d->nt};
  if (n == 1)
    return ts_run_rows(l, r, TS_MAP_MULTIPLY, y, 1, (ts_rows){d->w->w, 0}, t,
                       pairs, false);
  return ts_run_products(l, r, y.p, (ts_stride4){.b = y.stride, .h = 1}, t.p,
                         (ts_stride4){.b = t.stride, .h = n, .c = 1}, d->w->w,
                         (ts_stride4){.h = n, .c = 1},
                         (ts_sizes){r->batch, pairs, 1, 1, n}, 1, false);
}

static ts_err forward(ts_layer *l, const ts_layer_run *r) {
  const ts_bilinear *d = l->data;
  if (form_of(l) == MAT) return ts_bilinear_forward(l, r);
  for (int32_t i = 0; i + 1 < d->f; i++) TS_DO(multiply(l, r, i));
  TS_DO(ts_layer_begin(r, d->w, TS_FORWARD));
  TS_DO(weigh(l, r));
  return ts_layer_end(r, d->w, TS_FORWARD);
}

/* dt = dy w; dW = sum over samples of dy t, in t's place. */
static ts_err unweigh(const ts_layer *l, const ts_layer_run *r) {
  const ts_bilinear *d = l->data;
  const int32_t n = each_of(l);
  const float *dy = l->out[0].dx;
  const ts_stride4 ys = {.b = l->out[0].stride, .r = 1};
  const ts_stride4 ts = {.b = d->nt, .r = n, .c = 1}, ws = {.r = n, .c = 1};
  const ts_sizes each = {r->batch, 1, (int32_t)d->pairs, n, 1};
  TS_DO(ts_layer_begin(r, d->w, TS_BACKWARD));
  TS_DO(ts_run_times(l, r, d->dt, ts, d->w->w, ws, dy, ys, each, 1, false));
  TS_DO(ts_run_times(l, r, d->t, ts, d->t, ts, dy, ys, each, 1, false));
  TS_DO(ts_run_bias_grad(l, r, d->w->grad, d->t, r->batch, d->nt,
                         (int32_t)d->nt));
  TS_DO(ts_layer_gave(r, &d->w, 1));
  return ts_layer_end(r, d->w, TS_BACKWARD);
}

/* dx_j += dt_ij x_i. */
static ts_err add_others(const ts_layer *l, const ts_layer_run *r, int32_t i) {
  const ts_bilinear *d = l->data;
  const ts_side s = side_of(l, i);
  const ts_stride4 ts = {.b = d->nt, .r = each_of(l), .c = form_of(l) == VEC};
  return ts_run_times(l, r, l->in[0].dx + (int64_t)(i + 1) * d->d, x_rows(l),
                      d->dt + s.t, ts, s.x, x_row(l),
                      (ts_sizes){r->batch, 1, s.others, d->d, 1}, 1, true);
}

/* dx_i += sum over j of dt_ij x_j; of vectors those are made in dt's place. */
static ts_err add_own(const ts_layer *l, const ts_layer_run *r, int32_t i) {
  const ts_bilinear *d = l->data;
  const ts_side s = side_of(l, i);
  const int64_t stride = l->in[0].value->stride;
  const ts_stride4 ts = {.b = d->nt, .r = d->d, .c = 1};
  const ts_stride4 xs = {.b = stride, .r = 1},
                   sum = {.b = d->nt, .r = 1, .c = d->d};
  const ts_sizes n = {r->batch, 1, d->d, 1, s.others};
  float *dt = d->dt + s.t, *dx = l->in[0].dx + (int64_t)i * d->d;
  if (form_of(l) == NUM)
    return ts_run_products(l, r, dx, xs, s.others_x,
                           (ts_stride4){stride, 0, 1, d->d}, dt,
                           (ts_stride4){.b = d->nt, .c = 1}, n, 1, true);
  TS_DO(ts_run_times(l, r, dt, ts, dt, ts, s.others_x, x_rows(l),
                     (ts_sizes){r->batch, 1, s.others, d->d, 1}, 1, false));
  return ts_run_products(l, r, dx, xs, dt, sum, NULL, (ts_stride4){0}, n, 1,
                         true);
}

static ts_err backward(ts_layer *l, const ts_layer_run *r) {
  const ts_bilinear *d = l->data;
  const ts_input *in = &l->in[0];
  const size_t bytes = (size_t)r->batch * (size_t)in->value->stride * 4;
  if (form_of(l) == MAT) return ts_bilinear_backward(l, r);
  TS_DO(unweigh(l, r));
  if (!in->dx) return TS_OK;
  TS_DO(ts_run_zero(l, r, in->dx, bytes));
  for (int32_t i = 0; i + 1 < d->f; i++) {
    TS_DO(add_others(l, r, i));
    TS_DO(add_own(l, r, i));
  }
  return TS_OK;
}

/* Besides one for each weight. */
static double products(const ts_layer *l) {
  const ts_bilinear *d = l->data;
  return (double)d->pairs * d->d;
}

const ts_layer_ops ts_layer_outer_product = {
    .kind = "outer_product",
    .keys = keys,
    .n_keys = sizeof keys / sizeof *keys,
    .options_bytes = sizeof(ts_outer_options),
    .data_bytes = sizeof(ts_bilinear),
    .least = 1,
    .most = 1,
    .wants_fields = true,
    .keeps_in = true,
    .shape = shape,
    .create = create,
    .forward = forward,
    .backward = backward,
    .products = products,
    .page =
        "y_ij = x_j . (W_ij x_i) for i < j: weighted sums of the outer\n"
        "product of each pair of vectors, for PNN.  vec: sum over d of\n"
        "w_ij[d] x_i[d] x_j[d], num: w_ij x_i . x_j; the three forms are\n"
        "the kernel_type of DeepCTR's OutterProductLayer\n"
        "\n"
        "  in    fields (B, F, d)\n"
        "  out   (B, F (F - 1) / 2): y_01, y_02 .. y_12 ..\n"
        "  NAME.0.weight (F (F - 1) / 2 d, d): W_01, W_02 .. below each "
        "other;\n"
        "        vec: (F (F - 1) / 2, d); num: (F (F - 1) / 2, 1): uniform\n"
        "        in +-1/sqrt(d), whatever the form\n"
        "  Y. Qu et al., \"Product-Based Neural Networks for User Response\n"
        "  Prediction\", ICDM 2016\n"};
