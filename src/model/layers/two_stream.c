/* two_stream.c - two vectors fused by heads of bilinear products (FinalMLP).
 *
 * W_2 is (heads, a of a head, units, b of a head); t[o, h, c] = sum over k of
 * a_hk W_2hkoc, and y_o takes t_o . b. */
#include <math.h>

#include "model/layer_ops.h"

typedef struct ts_two_stream_options {
  int32_t units, heads;
} ts_two_stream_options;

static const ts_key keys[] = {
    {TS_SCOPE_LAYER, "units", TS_KEY_INT32,
     offsetof(ts_two_stream_options, units), "1", "outputs", 1, 1000000, NULL,
     "width of its output"},
    {TS_SCOPE_LAYER, "heads", TS_KEY_INT32,
     offsetof(ts_two_stream_options, heads), "1", "", 1, 1000000, NULL,
     "parts of each input that meet one of the other"},
};

typedef struct ts_two_stream {
  ts_rows_linear one[2];
  ts_param *w;
  int32_t a, b;       /* of a head */
  float *t, *dt;      /* (batch_max, units, heads b) */
  float *y, *dx, *dy; /* (batch_max, units), (.., widest stride), units */
} ts_two_stream;

static ts_err shape(ts_layer *l) {
  const ts_two_stream_options *o = l->options;
  ts_two_stream *d = l->data;
  char text[TS_SHAPE_BYTES];
  for (int k = 0; k < 2; k++) {
    const ts_value *v = l->in[k].value;
    const int32_t n = ts_shape_width(v->shape);
    if (n % o->heads)
      return ts_layer_fail(l, "its %s input is %s, which %d heads don't divide",
                           k ? "second" : "first",
                           ts_layer_shape_text(text, v->shape), o->heads);
    *(k ? &d->b : &d->a) = n / o->heads;
  }
  if ((int64_t)o->units * o->heads * d->b > TS_WIDTH_MAX)
    return ts_layer_fail(l,
                         "%d units by %d numbers; a sample has %d numbers at "
                         "most",
                         o->units, o->heads * d->b, TS_WIDTH_MAX);
  return ts_layer_gives(l, NULL, ts_vector_of(o->units));
}

static ts_err create(ts_layer *l, ts_lane *lane) {
  const ts_two_stream_options *o = l->options;
  ts_two_stream *d = l->data;
  const int64_t n = l->spec->batch_max;
  int32_t widest = 0;
  for (int32_t k = 0; k < 2; k++) {
    const ts_input *in = &l->in[k];
    const unsigned dx = in->dx ? 0 : TS_ROWS_NO_DX;
    TS_DO(ts_rows_linear_make(
        &d->one[k], l, k, ts_shape_width(in->value->shape), in->value->stride,
        o->units, 1, TS_ROWS_BIAS | dx, lane));
    if (in->value->stride > widest) widest = in->value->stride;
  }
  TS_DO(ts_layer_param(l, &d->w, 2, false, "weight", o->heads * d->a,
                       o->units * d->b, 1 / sqrt((double)d->a * d->b)));
  TS_DO(ts_layer_take(l, &d->t, n * o->units * o->heads * d->b, 4));
  TS_DO(ts_layer_take(l, &d->y, n * o->units, 4));
  if (!l->spec->training) return TS_OK;
  TS_DO(ts_layer_take(l, &d->dt, n * o->units * o->heads * d->b, 4));
  TS_DO(ts_layer_take(l, &d->dx, n * widest, 4));
  return ts_layer_take(l, &d->dy, n * o->units, 4);
}

static void destroy(ts_layer *l) {
  ts_two_stream *d = l->data;
  for (int k = 0; k < 2; k++) ts_rows_linear_reset(&d->one[k]);
}

/* Strides: of t and dt as (o, h, sample, c), of a as (h, sample, k), of W as
 * (o, h, c, k). */
static ts_stride4 t_strides(const ts_layer *l) {
  const ts_two_stream_options *o = l->options;
  const ts_two_stream *d = l->data;
  const int64_t n = (int64_t)o->heads * d->b;
  return (ts_stride4){.b = n, .h = d->b, .r = o->units * n, .c = 1};
}
static ts_stride4 a_strides(const ts_layer *l) {
  const ts_two_stream *d = l->data;
  return (ts_stride4){.h = d->a, .r = l->in[0].value->stride, .c = 1};
}
static ts_stride4 w_strides(const ts_layer *l) {
  const ts_two_stream_options *o = l->options;
  const ts_two_stream *d = l->data;
  const int64_t n = (int64_t)o->units * d->b;
  return (ts_stride4){.b = d->b, .h = d->a * n, .r = 1, .c = n};
}

static ts_err forward(ts_layer *l, const ts_layer_run *r) {
  const ts_two_stream_options *o = l->options;
  ts_two_stream *d = l->data;
  const ts_value *a = l->in[0].value, *b = l->in[1].value;
  float *y = l->out[0].x;
  const int64_t n = (int64_t)o->heads * d->b;
  TS_DO(ts_rows_linear_forward(&d->one[0], r, y, a->x));
  TS_DO(ts_rows_linear_forward(&d->one[1], r, d->y, b->x));
  TS_DO(ts_run_copy(l, r, y, o->units, d->y, o->units, o->units, true));
  TS_DO(ts_layer_begin(r, d->w, TS_FORWARD));
  TS_DO(ts_run_products(
      l, r, d->t, t_strides(l), a->x, a_strides(l), d->w->w, w_strides(l),
      (ts_sizes){o->units, o->heads, r->batch, d->b, d->a}, 1, false));
  TS_DO(ts_layer_end(r, d->w, TS_FORWARD));
  return ts_run_products(l, r, y, (ts_stride4){.b = o->units, .r = 1}, d->t,
                         (ts_stride4){.b = o->units * n, .r = n, .c = 1}, b->x,
                         (ts_stride4){.b = b->stride, .c = 1},
                         (ts_sizes){r->batch, 1, o->units, 1, n}, 1, true);
}

/* dt_o = dy_o b; W's gradient, and a's and b's by these products: =. */
static ts_err bilinear_backward(ts_layer *l, const ts_layer_run *r) {
  const ts_two_stream_options *o = l->options;
  ts_two_stream *d = l->data;
  const ts_input *a = &l->in[0], *b = &l->in[1];
  const int64_t n = (int64_t)o->heads * d->b;
  const ts_stride4 ts = t_strides(l), as = a_strides(l), ws = w_strides(l);
  TS_DO(
      ts_run_times(l, r, d->dt, (ts_stride4){.b = o->units * n, .r = n, .c = 1},
                   l->out[0].dx, (ts_stride4){.b = o->units, .r = 1},
                   b->value->x, (ts_stride4){.b = b->value->stride, .c = 1},
                   (ts_sizes){r->batch, 1, o->units, (int32_t)n, 1}, 1, false));
  if (b->dx)
    TS_DO(ts_run_products(
        l, r, b->dx, (ts_stride4){.b = b->value->stride, .c = 1}, l->out[0].dx,
        (ts_stride4){.b = o->units, .c = 1}, d->t,
        (ts_stride4){.b = o->units * n, .r = 1, .c = n},
        (ts_sizes){r->batch, 1, 1, (int32_t)n, o->units}, 1, false));
  TS_DO(ts_layer_begin(r, d->w, TS_BACKWARD));
  TS_DO(ts_run_products(l, r, d->w->grad, (ts_stride4){ws.b, ws.h, ws.c, ws.r},
                        a->value->x, (ts_stride4){as.b, as.h, as.c, as.r},
                        d->dt, (ts_stride4){ts.b, ts.h, ts.c, ts.r},
                        (ts_sizes){o->units, o->heads, d->a, d->b, r->batch}, 1,
                        false));
  for (int32_t k = 0; a->dx && k < o->units; k++) {
    TS_DO(ts_run_products(
        l, r, a->dx, as, d->dt + k * ts.b,
        (ts_stride4){.h = ts.h, .r = ts.r, .c = 1}, d->w->w + k * ws.b,
        (ts_stride4){.h = ws.h, .r = ws.c, .c = 1},
        (ts_sizes){1, o->heads, r->batch, d->a, d->b}, 1, k > 0));
  }
  TS_DO(ts_layer_gave(r, &d->w, 1));
  return ts_layer_end(r, d->w, TS_BACKWARD);
}

static ts_err backward(ts_layer *l, const ts_layer_run *r) {
  const ts_two_stream_options *o = l->options;
  ts_two_stream *d = l->data;
  TS_DO(bilinear_backward(l, r));
  for (int k = 1; k >= 0; k--) {
    const ts_input *in = &l->in[k];
    const ts_value *v = in->value;
    TS_DO(ts_run_copy(l, r, d->dy, o->units, l->out[0].dx, o->units, o->units,
                      false));
    TS_DO(ts_rows_linear_backward(&d->one[k], r, in->dx ? d->dx : NULL, d->dy,
                                  v->x, d->y));
    if (in->dx)
      TS_DO(ts_run_copy(l, r, in->dx, v->stride, d->dx, v->stride,
                        ts_shape_width(v->shape), true));
  }
  return TS_OK;
}

static double products(const ts_layer *l) {
  const ts_two_stream_options *o = l->options;
  const ts_two_stream *d = l->data;
  return (double)o->units * o->heads * d->b;
}

const ts_layer_ops ts_layer_two_stream = {
    .kind = "two_stream",
    .keys = keys,
    .n_keys = sizeof keys / sizeof *keys,
    .options_bytes = sizeof(ts_two_stream_options),
    .data_bytes = sizeof(ts_two_stream),
    .least = 2,
    .most = 2,
    .keeps_in = true,
    .shape = shape,
    .create = create,
    .destroy = destroy,
    .forward = forward,
    .backward = backward,
    .products = products,
    .page =
        "y = W_0 a + b_0 + W_1 b + b_1 + sum over heads h of a_h^T W_2h b_h:\n"
        "FinalMLP's fusion of two streams, as FuxiCTR's\n"
        "InteractionAggregation\n"
        "\n"
        "  in    two vectors a (B, n), b (B, m), which heads divides\n"
        "  out   (B, units)\n"
        "  NAME.0.weight (units, n), NAME.0.bias, NAME.1.weight (units, m),\n"
        "        NAME.1.bias: as PyTorch's Linear; NAME.2.weight (n, units m\n"
        "        / heads), row k of a, column m / heads o + c of unit o:\n"
        "        uniform in +-heads / sqrt(n m)\n"
        "  K. Mao et al., \"FinalMLP: An Enhanced Two-Stream MLP Model for\n"
        "  CTR Prediction\", AAAI 2023\n"};
