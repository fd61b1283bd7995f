/* bilinear.c - products of pairs of fields with weights between them: FiBiNET's
 * bilinear interaction, and its sums over the vectors, which are a form of
 * PNN's outer products (outer_product.c).
 *
 * Field i < F - 1 is multiplied by its weights, t_i = W x_i: one matrix of all,
 * one of its own, or one for each j > i, below each other.  Then come the
 * products with x_j. */
#include "model/layers/bilinear.h"

#include <math.h>

enum { ALL, EACH, INTERACTION };

typedef struct ts_bilinear_options {
  int form;
} ts_bilinear_options;

static const ts_key keys[] = {
    {TS_SCOPE_LAYER, "form", TS_KEY_CHOICE, offsetof(ts_bilinear_options, form),
     "\"interaction\"", "", 1, 0, "all|each|interaction",
     "one W of all fields, one of each field, or one of each pair"},
};

/* Of field i: where its t lies, its weights, how many they give, and its first
 * pair. */
typedef struct ts_side {
  int64_t t, w, pair;
  int32_t wide, others;
} ts_side;

static ts_side side_of(const ts_bilinear *d, int32_t i) {
  const int64_t pair = (int64_t)i * d->f - (int64_t)i * (i + 1) / 2;
  const int64_t at = d->form == INTERACTION ? pair : i;
  const int32_t others = d->f - 1 - i;
  return (ts_side){.t = at * d->d,
                   .w = d->form == ALL ? 0 : at * d->d * d->d,
                   .pair = pair,
                   .wide = d->form == INTERACTION ? others * d->d : d->d,
                   .others = others};
}

static ts_err shape_of(ts_layer *l, int form, bool sums) {
  ts_bilinear *d = l->data;
  const ts_shape s = l->in[0].value->shape;
  d->form = form;
  d->sums = sums;
  d->f = s.fields;
  d->d = s.dim;
  d->pairs = (int64_t)d->f * (d->f - 1) / 2;
  d->nt = (form == INTERACTION ? d->pairs : d->f - 1) * d->d;
  if (d->f < 2) return ts_layer_fail(l, "one field makes no pair");
  if (d->pairs * d->d > TS_WIDTH_MAX)
    return ts_layer_fail(l,
                         "%lld pairs of %d numbers; a sample has %d numbers at "
                         "most",
                         (long long)d->pairs, d->d, TS_WIDTH_MAX);
  return ts_layer_gives(l, NULL,
                        sums ? ts_vector_of((int32_t)d->pairs)
                             : ts_fields_of((int32_t)d->pairs, d->d));
}

static ts_err shape(ts_layer *l) {
  const ts_bilinear_options *o = l->options;
  return shape_of(l, o->form, false);
}

ts_err ts_bilinear_sums_shape(ts_layer *l) {
  return shape_of(l, INTERACTION, true);
}

ts_err ts_bilinear_create(ts_layer *l, ts_lane *lane) {
  (void)lane;
  ts_bilinear *d = l->data;
  const int64_t rows = d->form == ALL ? d->d : d->nt;
  const int64_t n = (int64_t)l->spec->batch_max * d->nt;
  TS_DO(ts_layer_param(l, &d->w, 0, false, "weight", (int32_t)rows, d->d,
                       1 / sqrt((double)d->d)));
  TS_DO(ts_layer_take(l, &d->t, n, 4));
  return l->spec->training ? ts_layer_take(l, &d->dt, n, 4) : TS_OK;
}

/* t_i = W x_i. */
static ts_err weigh(const ts_layer *l, const ts_layer_run *r, int32_t i) {
  const ts_bilinear *d = l->data;
  const ts_side s = side_of(d, i);
  return ts_run_products(l, r, d->t + s.t, (ts_stride4){.r = d->nt, .c = 1},
                         l->in[0].value->x + (int64_t)i * d->d,
                         (ts_stride4){.r = l->in[0].value->stride, .c = 1},
                         d->w->w + s.w, (ts_stride4){.r = d->d, .c = 1},
                         (ts_sizes){1, 1, r->batch, s.wide, d->d}, 1, false);
}

/* Strides of y: of a pair's numbers, or of its sum. */
static ts_stride4 y_strides(const ts_layer *l) {
  const ts_bilinear *d = l->data;
  return d->sums ? (ts_stride4){.b = l->out[0].stride, .r = 1}
                 : (ts_stride4){.b = l->out[0].stride, .r = d->d, .c = 1};
}

/* y_ij = t_i x_j, summed where that is wanted. */
static ts_err pair(const ts_layer *l, const ts_layer_run *r, int32_t i) {
  const ts_bilinear *d = l->data;
  const ts_side s = side_of(d, i);
  const ts_stride4 ys = y_strides(l);
  const ts_stride4 ts = {
      .b = d->nt, .r = d->form == INTERACTION ? d->d : 0, .c = 1};
  const ts_stride4 xs = {.b = l->in[0].value->stride, .r = d->d, .c = 1};
  const float *x = l->in[0].value->x + (int64_t)(i + 1) * d->d;
  float *y = l->out[0].x + s.pair * ys.r;
  if (!d->sums)
    return ts_run_times(l, r, y, ys, d->t + s.t, ts, x, xs,
                        (ts_sizes){r->batch, 1, s.others, d->d, 1}, 1, false);
  return ts_run_products(l, r, y, (ts_stride4){.b = ys.b, .h = 1}, d->t + s.t,
                         (ts_stride4){.b = ts.b, .h = ts.r, .c = 1}, x,
                         (ts_stride4){.b = xs.b, .h = xs.r, .c = 1},
                         (ts_sizes){r->batch, s.others, 1, 1, d->d}, 1, false);
}

ts_err ts_bilinear_forward(ts_layer *l, const ts_layer_run *r) {
  const ts_bilinear *d = l->data;
  TS_DO(ts_layer_begin(r, d->w, TS_FORWARD));
  for (int32_t i = 0; i + 1 < d->f; i++) TS_DO(weigh(l, r, i));
  TS_DO(ts_layer_end(r, d->w, TS_FORWARD));
  for (int32_t i = 0; i + 1 < d->f; i++) TS_DO(pair(l, r, i));
  return TS_OK;
}

/* dt_i = sum over j of dy_ij x_j, or dt_ij = dy_ij x_j. */
static ts_err unpair(const ts_layer *l, const ts_layer_run *r, int32_t i) {
  const ts_bilinear *d = l->data;
  const ts_side s = side_of(d, i);
  const ts_stride4 ys = y_strides(l);
  const int64_t stride = l->in[0].value->stride;
  const float *x = l->in[0].value->x + (int64_t)(i + 1) * d->d;
  const float *dy = l->out[0].dx + s.pair * ys.r;
  if (d->form == INTERACTION)
    return ts_run_times(l, r, d->dt + s.t, (ts_stride4){d->nt, 0, d->d, 1}, dy,
                        ys, x, (ts_stride4){stride, 0, d->d, 1},
                        (ts_sizes){r->batch, 1, s.others, d->d, 1}, 1, false);
  return ts_run_products(l, r, d->dt + s.t, (ts_stride4){.b = d->nt, .h = 1},
                         dy, (ts_stride4){.b = ys.b, .h = ys.c, .c = ys.r}, x,
                         (ts_stride4){.b = stride, .h = 1, .c = d->d},
                         (ts_sizes){r->batch, d->d, 1, 1, s.others}, 1, false);
}

/* dx_j += dy_ij t_i, dx_i += W^T dt_i. */
static ts_err add_dx(const ts_layer *l, const ts_layer_run *r, int32_t i) {
  const ts_bilinear *d = l->data;
  const ts_side s = side_of(d, i);
  const ts_stride4 ys = y_strides(l);
  const int64_t stride = l->in[0].value->stride;
  float *dx = l->in[0].dx + (int64_t)i * d->d;
  TS_DO(ts_run_times(
      l, r, dx + d->d, (ts_stride4){.b = stride, .r = d->d, .c = 1},
      l->out[0].dx + s.pair * ys.r, ys, d->t + s.t,
      (ts_stride4){.b = d->nt, .r = d->form == INTERACTION ? d->d : 0, .c = 1},
      (ts_sizes){r->batch, 1, s.others, d->d, 1}, 1, true));
  return ts_run_products(l, r, dx, (ts_stride4){.r = stride, .c = 1},
                         d->dt + s.t, (ts_stride4){.r = d->nt, .c = 1},
                         d->w->w + s.w, (ts_stride4){.r = 1, .c = d->d},
                         (ts_sizes){1, 1, r->batch, d->d, s.wide}, 1, true);
}

/* dW = sum over samples of dt_i x_i^T; of all fields, too, where they share
 * it. */
static ts_err add_dw(const ts_layer *l, const ts_layer_run *r, int32_t i) {
  const ts_bilinear *d = l->data;
  const ts_side s = side_of(d, i);
  return ts_run_products(
      l, r, d->w->grad + s.w, (ts_stride4){.r = d->d, .c = 1}, d->dt + s.t,
      (ts_stride4){.r = 1, .c = d->nt}, l->in[0].value->x + (int64_t)i * d->d,
      (ts_stride4){.r = 1, .c = l->in[0].value->stride},
      (ts_sizes){1, 1, s.wide, d->d, r->batch}, 1, d->form == ALL && i > 0);
}

ts_err ts_bilinear_backward(ts_layer *l, const ts_layer_run *r) {
  ts_bilinear *d = l->data;
  const ts_input *in = &l->in[0];
  const size_t bytes = (size_t)r->batch * (size_t)in->value->stride * 4;
  for (int32_t i = 0; i + 1 < d->f; i++) TS_DO(unpair(l, r, i));
  if (in->dx) TS_DO(ts_run_zero(l, r, in->dx, bytes));
  TS_DO(ts_layer_begin(r, d->w, TS_BACKWARD));
  for (int32_t i = 0; i + 1 < d->f; i++) {
    if (in->dx) TS_DO(add_dx(l, r, i));
    TS_DO(add_dw(l, r, i));
  }
  TS_DO(ts_layer_gave(r, &d->w, 1));
  return ts_layer_end(r, d->w, TS_BACKWARD);
}

/* Besides one for each weight. */
static double products(const ts_layer *l) {
  const ts_bilinear *d = l->data;
  const double again = d->form == ALL ? d->f - 2 : 0;
  return again * d->d * d->d + (double)d->pairs * d->d;
}

const ts_layer_ops ts_layer_bilinear = {
    .kind = "bilinear",
    .keys = keys,
    .n_keys = sizeof keys / sizeof *keys,
    .options_bytes = sizeof(ts_bilinear_options),
    .data_bytes = sizeof(ts_bilinear),
    .least = 1,
    .most = 1,
    .wants_fields = true,
    .keeps_in = true,
    .any_stride = true,
    .shape = shape,
    .create = ts_bilinear_create,
    .forward = ts_bilinear_forward,
    .backward = ts_bilinear_backward,
    .products = products,
    .page =
        "y_ij = (W x_i) * x_j for i < j, by element: FiBiNET's bilinear\n"
        "interaction.  W is one of all fields, W_i (each) or W_ij\n"
        "(interaction).\n"
        "\n"
        "  in    fields (B, F, d)\n"
        "  out   fields (B, F (F - 1) / 2, d): y_01, y_02 .. y_12 ..\n"
        "  NAME.0.weight (d, d); each: ((F - 1) d, d), W_0, W_1 .. below each\n"
        "        other (the last field needs none); interaction:\n"
        "        (F (F - 1) / 2 d, d), W_01, W_02 ..: uniform in +-1/sqrt(d),\n"
        "        as DeepCTR-Torch's BilinearInteraction has a Linear without\n"
        "        bias for each\n"
        "  T. Huang, Z. Zhang, J. Zhang, \"FiBiNET: Combining Feature\n"
        "  Importance and Bilinear Feature Interaction for Click-Through\n"
        "  Rate Prediction\", RecSys 2019\n"};
