/* periodic.c - numbers as waves of learnt frequencies, and those of each number
 * by a linear layer: periodic embeddings.
 *
 *   p = [sin(2 pi c_1 x) .. sin(2 pi c_k x), cos(2 pi c_1 x) ..],
 *   y = relu(W p + b) */
#include <math.h>

#include "base/mem.h"
#include "model/layer_ops.h"

enum { RELU, LINEAR };

typedef struct ts_periodic_options {
  int32_t frequencies, dim;
  double sigma;
  int activation;
  bool lite;
} ts_periodic_options;

#define AT(key) offsetof(ts_periodic_options, key)
static const ts_key keys[] = {
    {TS_SCOPE_LAYER, "frequencies", TS_KEY_INT32, AT(frequencies), "48", "", 1,
     4096, NULL, "k, of each number"},
    {TS_SCOPE_LAYER, "sigma", TS_KEY_FLOAT, AT(sigma), "0.01", "", 1e-6, 1000,
     NULL, "deviation of the frequencies' initial values"},
    {TS_SCOPE_LAYER, "dim", TS_KEY_INT32, AT(dim), "24", "", 0, 65536, NULL,
     "width of y; 0: y is p, without a linear layer"},
    {TS_SCOPE_LAYER, "activation", TS_KEY_CHOICE, AT(activation), "\"relu\"",
     "", 1, 0, "relu|linear", "of y; linear: none"},
    {TS_SCOPE_LAYER, "lite", TS_KEY_BOOL, AT(lite), "false", "", 1, 0, NULL,
     "all numbers share W and b"},
};
#undef AT

typedef struct ts_periodic {
  ts_param *c;           /* (n, k) */
  ts_param *own[2];      /* W (n dim, 2 k), b (n dim): of each number */
  ts_linear **each;      /* (n) of it, in bf16; *each NULL: f32, by contract */
  ts_rows_linear shared; /* lite */
  int32_t n;
  int64_t wide;  /* 2 k */
  float *p, *dp; /* (batch_max, n, 2 k); NULL: y and its gradient are */
} ts_periodic;

static ts_err shape(ts_layer *l) {
  const ts_periodic_options *o = l->options;
  ts_periodic *d = l->data;
  d->n = ts_shape_width(l->in[0].value->shape);
  d->wide = 2 * (int64_t)o->frequencies;
  const int64_t dim = o->dim ? o->dim : d->wide;
  if (d->n * d->wide > TS_WIDTH_MAX || d->n * dim > TS_WIDTH_MAX)
    return ts_layer_fail(l,
                         "%d numbers of %d frequencies and dim %d: a sample "
                         "has %d numbers at most",
                         d->n, o->frequencies, o->dim, TS_WIDTH_MAX);
  return ts_layer_gives(l, NULL,
                        d->n > 1 ? ts_fields_of(d->n, (int32_t)dim)
                                 : ts_vector_of((int32_t)dim));
}

static ts_err create_own(ts_layer *l, ts_lane *lane) {
  const ts_periodic_options *o = l->options;
  ts_periodic *d = l->data;
  const int32_t wide = (int32_t)d->wide, rows = d->n * o->dim;
  const double bound = 1 / sqrt((double)wide);
  ts_linear_spec s = {.n_in = wide,
                      .n_out = o->dim,
                      .in_stride = d->n * wide,
                      .out_stride = rows,
                      .relu = o->activation == RELU,
                      .need_dx = true};
  TS_DO(ts_layer_param(l, &d->own[0], 1, false, "weight", rows, wide, bound));
  TS_DO(ts_layer_param(l, &d->own[1], 1, false, "bias", rows, 0, bound));
  TS_DO(ts_mem_many(d->each, d->n, DENSE));
  for (int32_t i = 0; i < d->n; i++, s.first_row += o->dim)
    TS_DO(ts_layer_part(&d->each[i], l, &s, d->own[0], d->own[1], lane));
  return TS_OK;
}

/* W and b, and room for p. */
static ts_err create_linear(ts_layer *l, ts_lane *lane) {
  const ts_periodic_options *o = l->options;
  ts_periodic *d = l->data;
  const int32_t wide = (int32_t)d->wide;
  const int64_t n = (int64_t)l->spec->batch_max * d->n * wide;
  TS_DO(ts_layer_take(l, &d->p, n, 4));
  if (l->spec->training) TS_DO(ts_layer_take(l, &d->dp, n, 4));
  if (o->lite)
    return ts_rows_linear_make(
        &d->shared, l, 1, wide, wide, o->dim, d->n,
        TS_ROWS_BIAS | (o->activation == RELU ? TS_ROWS_RELU : 0), lane);
  return create_own(l, lane);
}

static ts_err create(ts_layer *l, ts_lane *lane) {
  const ts_periodic_options *o = l->options;
  ts_periodic *d = l->data;
  TS_DO(ts_layer_param(l, &d->c, 0, false, "frequencies", d->n, o->frequencies,
                       0));
  TS_DO(ts_param_init_normal(d->c, (uint64_t)l->spec->config->run.seed,
                             o->sigma)); /* whatever init says of matrices */
  return o->dim ? create_linear(l, lane) : TS_OK;
}

static void destroy(ts_layer *l) {
  ts_periodic *d = l->data;
  for (int32_t i = 0; d->each && i < d->n; i++) ts_linear_destroy(d->each[i]);
  ts_mem_free(d->each);
  ts_rows_linear_reset(&d->shared);
}

/* Strides of p's sines, and of its cosines, which are K floats behind. */
static ts_stride4 p_strides(const ts_periodic *d) {
  return (ts_stride4){.b = d->n * d->wide, .r = d->wide, .c = 1};
}

static ts_err wave(const ts_layer *l, const ts_layer_run *r, ts_map_op op,
                   float *p) {
  const ts_periodic *d = l->data;
  const int64_t k = d->wide / 2;
  const ts_map_args a = {.y = p,
                         .a = d->c->w,
                         .x = l->in[0].value->x,
                         .ys = p_strides(d),
                         .as = {.r = k, .c = 1},
                         .xs = {.b = l->in[0].value->stride, .r = 1},
                         .n_b = r->batch,
                         .n_h = 1,
                         .n_i = d->n,
                         .n_j = (int32_t)k,
                         .op = op,
                         .scale = 1};
  return ts_run_map(l, r, &a);
}

/* relu, in its place. */
static ts_err relu(const ts_layer *l, const ts_layer_run *r, ts_pass pass) {
  const ts_periodic_options *o = l->options;
  const ts_value *y = &l->out[0];
  const int32_t n = ts_shape_width(y->shape);
  if (o->activation == LINEAR) return TS_OK;
  return ts_run_act_rows(l, r, TS_ACT_RELU, r->batch, n, y->x, n, y->x, y->dx,
                         y->dx, pass);
}

/* y = relu(W p + b) of each number. */
static ts_err own_forward(const ts_layer *l, const ts_layer_run *r) {
  const ts_periodic_options *o = l->options;
  const ts_periodic *d = l->data;
  const ts_rows y = {l->out[0].x, (int64_t)d->n * o->dim}, none = {0};
  const int64_t w_h = o->dim * d->wide;
  TS_DO(ts_run_products(l, r, y.p, (ts_stride4){0, o->dim, y.stride, 1}, d->p,
                        (ts_stride4){0, d->wide, d->n * d->wide, 1},
                        d->own[0]->w, (ts_stride4){0, w_h, d->wide, 1},
                        (ts_sizes){1, d->n, r->batch, o->dim, d->wide}, 1,
                        false));
  TS_DO(ts_run_rows(l, r, TS_MAP_MULTIPLY, y, 1, (ts_rows){d->own[1]->w, 0},
                    none, (int32_t)y.stride, true));
  return relu(l, r, TS_FORWARD);
}

/* dW = sum over samples of dy p^T, db = sum of dy, dp = W^T dy. */
static ts_err own_backward(const ts_layer *l, const ts_layer_run *r) {
  const ts_periodic_options *o = l->options;
  const ts_periodic *d = l->data;
  const float *dy = l->out[0].dx;
  const int64_t y_b = (int64_t)d->n * o->dim, p_b = d->n * d->wide;
  const int64_t w_h = o->dim * d->wide;
  const int32_t wide = (int32_t)d->wide;
  TS_DO(relu(l, r, TS_BACKWARD));
  TS_DO(ts_run_products(l, r, d->own[0]->grad, (ts_stride4){0, w_h, wide, 1},
                        dy, (ts_stride4){0, o->dim, 1, y_b}, d->p,
                        (ts_stride4){0, wide, 1, p_b},
                        (ts_sizes){1, d->n, o->dim, wide, r->batch}, 1, false));
  TS_DO(
      ts_run_bias_grad(l, r, d->own[1]->grad, dy, r->batch, y_b, (int32_t)y_b));
  return ts_run_products(l, r, d->dp, (ts_stride4){0, wide, p_b, 1}, dy,
                         (ts_stride4){0, o->dim, y_b, 1}, d->own[0]->w,
                         (ts_stride4){0, w_h, 1, wide},
                         (ts_sizes){1, d->n, r->batch, wide, o->dim}, 1, false);
}

static ts_err each_pass(const ts_layer *l, const ts_layer_run *r,
                        ts_pass pass) {
  const ts_periodic_options *o = l->options;
  const ts_periodic *d = l->data;
  const ts_value *out = &l->out[0];
  for (int32_t i = 0; i < d->n; i++) {
    const int64_t p = i * d->wide, y = (int64_t)i * o->dim;
    TS_DO(pass == TS_FORWARD
              ? ts_linear_forward(d->each[i], out->x + y, d->p + p, r->batch,
                                  r->lane)
              : ts_linear_backward(d->each[i], d->dp + p, out->dx + y, d->p + p,
                                   out->x + y, r->batch, r->lane));
  }
  return TS_OK;
}

static ts_err own_pass(const ts_layer *l, const ts_layer_run *r, ts_pass pass) {
  const ts_periodic *d = l->data;
  TS_DO(ts_layer_begin(r, d->own[0], pass));
  TS_DO(*d->each             ? each_pass(l, r, pass)
        : pass == TS_FORWARD ? own_forward(l, r)
                             : own_backward(l, r));
  if (pass == TS_BACKWARD) TS_DO(ts_layer_gave(r, d->own, 2));
  return ts_layer_end(r, d->own[0], pass);
}

static ts_err forward(ts_layer *l, const ts_layer_run *r) {
  const ts_periodic_options *o = l->options;
  ts_periodic *d = l->data;
  float *p = d->p ? d->p : l->out[0].x;
  TS_DO(ts_layer_begin(r, d->c, TS_FORWARD));
  TS_DO(wave(l, r, TS_MAP_SIN, p));
  TS_DO(wave(l, r, TS_MAP_COS, p + o->frequencies));
  TS_DO(ts_layer_end(r, d->c, TS_FORWARD));
  if (!o->dim) return TS_OK;
  return o->lite ? ts_rows_linear_forward(&d->shared, r, l->out[0].x, p)
                 : own_pass(l, r, TS_FORWARD);
}

/* In place of dp's sines dv = dp_sin cos v - dp_cos sin v; then
 * dc = 2 pi sum over samples of dv x, dx = 2 pi sum of dv c. */
static ts_err wave_backward(const ts_layer *l, const ts_layer_run *r, float *dp,
                            const float *p) {
  const ts_periodic *d = l->data;
  const ts_input *in = &l->in[0];
  const int32_t k = (int32_t)(d->wide / 2);
  const float turn = 6.28318531f;
  const ts_stride4 ps = p_strides(d);
  const ts_sizes each = {r->batch, 1, d->n, k, 1};
  TS_DO(ts_run_times(l, r, dp, ps, dp, ps, p + k, ps, each, 1, false));
  TS_DO(ts_run_times(l, r, dp, ps, dp + k, ps, p, ps, each, -1, true));
  TS_DO(ts_layer_begin(r, d->c, TS_BACKWARD));
  TS_DO(ts_run_products(l, r, d->c->grad, (ts_stride4){.h = k, .r = 1}, dp,
                        (ts_stride4){.h = d->wide, .r = 1, .c = ps.b},
                        in->value->x,
                        (ts_stride4){.h = 1, .c = in->value->stride},
                        (ts_sizes){1, d->n, k, 1, r->batch}, turn, false));
  if (in->dx)
    TS_DO(ts_run_products(l, r, in->dx,
                          (ts_stride4){.b = in->value->stride, .h = 1}, dp,
                          (ts_stride4){.b = ps.b, .h = d->wide, .c = 1},
                          d->c->w, (ts_stride4){.h = k, .c = 1},
                          (ts_sizes){r->batch, d->n, 1, 1, k}, turn, false));
  TS_DO(ts_layer_gave(r, &d->c, 1));
  return ts_layer_end(r, d->c, TS_BACKWARD);
}

static ts_err backward(ts_layer *l, const ts_layer_run *r) {
  const ts_periodic_options *o = l->options;
  ts_periodic *d = l->data;
  const ts_value *y = &l->out[0];
  if (!o->dim) return wave_backward(l, r, y->dx, y->x);
  TS_DO(o->lite
            ? ts_rows_linear_backward(&d->shared, r, d->dp, y->dx, d->p, y->x)
            : own_pass(l, r, TS_BACKWARD));
  return wave_backward(l, r, d->dp, d->p);
}

/* Besides one for each weight. */
static double products(const ts_layer *l) {
  const ts_periodic_options *o = l->options;
  const ts_periodic *d = l->data;
  return o->lite ? (d->n - 1.0) * (double)d->wide * o->dim : 0;
}

const ts_layer_ops ts_layer_periodic = {
    .kind = "periodic",
    .keys = keys,
    .n_keys = sizeof keys / sizeof *keys,
    .options_bytes = sizeof(ts_periodic_options),
    .data_bytes = sizeof(ts_periodic),
    .least = 1,
    .most = 1,
    .keeps_in = true,
    .keeps_out = true,
    .shape = shape,
    .create = create,
    .destroy = destroy,
    .forward = forward,
    .backward = backward,
    .products = products,
    .page =
        "y = relu(W p + b), p = [sin v_1 .. sin v_k, cos v_1 .. cos v_k],\n"
        "v_j = 2 pi c_j x, for each number x, with frequencies c, W and b of\n"
        "its own: periodic embeddings, PLR; with lite = true PLR(lite), with\n"
        "activation = \"linear\" PL\n"
        "\n"
        "  in    vectors, side by side (B, n), as a rule dense\n"
        "  out   (B, n, dim), with dim = 0 (B, n, 2 k); of one number a\n"
        "        vector\n"
        "  Columns need transform quantile or standardise first\n"
        "  (data.columns), so that one sigma fits all.  What sigma is counts:\n"
        "  larger ones than the best do harm, smaller ones little.\n"
        "  NAME.0.frequencies (n, k): normal with deviation sigma\n"
        "  NAME.1.weight (n dim, 2 k), those of each number below each other,\n"
        "        NAME.1.bias (n dim); lite: (dim, 2 k), (dim): uniform in\n"
        "        +-1/sqrt(2 k)\n"
        "  p takes 8 n k bytes a sample, in training 16 n k.\n"
        "  Y. Gorishniy, I. Rubachev, A. Babenko, \"On Embeddings for\n"
        "  Numerical Features in Tabular Deep Learning\", NeurIPS 2022; "
        "defaults\n"
        "  are those of its package rtdl_num_embeddings, which has cosines\n"
        "  first and no frequencies beyond 3 sigma.  lite: Y. Gorishniy et\n"
        "  al., \"TabR: Tabular Deep Learning Meets Nearest Neighbors\", ICLR\n"
        "  2024\n"};
