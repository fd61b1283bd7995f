/* cross_forms.c - cross layers whose weights are a vector (DCN), and mixtures
 * of low rank (DCN v2).
 *
 *   vector  y = x_0 (w . x) + b + x
 *   moe     y = x_0 * t + x, t = U u + b, u_e = p_e tanh(C_e tanh(V_e x)),
 *           p = softmax(G x); since the p_e sum to 1, b stands outside
 * What experts give lies side by side: one product each for V and U. */
#include "model/layers/cross_forms.h"

#include <math.h>

#include "base/mem.h"

typedef struct ts_form_layer {
  ts_param *w[2]; /* vector: weight, bias; moe: C */
  ts_rows_linear V, G, U;
  float *s;     /* (batch_max, 1) w . x; (.., experts) G x */
  float *a, *c; /* moe: (batch_max, experts rank) V x; C tanh of that */
  float *t;     /* moe: (batch_max, n) */
  float *y;     /* (batch_max, n) */
} ts_form_layer;

struct ts_cross_forms {
  ts_form_layer *layer;
  int32_t n_layers, n, e, r;  /* width, experts, rank; r 0: vector */
  float *dx0, *dt, *dx;       /* (batch_max, n), dx with the input's stride */
  float *p, *dp;              /* (batch_max, experts) */
  float *h, *g, *u, *du, *dh; /* (batch_max, experts rank) */
};

/* ---- vector -------------------------------------------------------------- */

static ts_err vector_create(ts_cross_forms *d, ts_layer *l, int32_t i) {
  ts_form_layer *k = &d->layer[i];
  TS_DO(ts_layer_param(l, &k->w[0], i, false, "weight", 1, d->n,
                       1 / sqrt((double)d->n)));
  TS_DO(ts_layer_param(l, &k->w[1], i, false, "bias", d->n, 0, 0));
  return ts_layer_take(l, &k->s, l->spec->batch_max, 4);
}

/* TO (B) = a . x of each row. */
static ts_err dots(const ts_cross_forms *d, const ts_layer *l,
                   const ts_layer_run *r, float *to, ts_rows a, ts_rows x) {
  return ts_run_products(l, r, to, (ts_stride4){.b = 1}, a.p,
                         (ts_stride4){.b = a.stride, .c = 1}, x.p,
                         (ts_stride4){.b = x.stride, .c = 1},
                         (ts_sizes){r->batch, 1, 1, 1, d->n}, 1, false);
}

/* Y = s x, s one number a row; added where ADD. */
static ts_err by_number(const ts_cross_forms *d, const ts_layer *l,
                        const ts_layer_run *r, ts_rows y, const float *s,
                        ts_rows x, bool add) {
  return ts_run_times(l, r, y.p, (ts_stride4){.b = y.stride, .c = 1}, s,
                      (ts_stride4){.b = 1}, x.p,
                      (ts_stride4){.b = x.stride, .c = 1},
                      (ts_sizes){r->batch, 1, 1, d->n, 1}, 1, add);
}

static ts_err vector_forward(const ts_cross_forms *d, const ts_layer *l,
                             const ts_layer_run *r, ts_form_layer *k,
                             ts_rows x0, ts_rows x) {
  const ts_rows w = {k->w[0]->w, 0}, y = {k->y, d->n};
  TS_DO(ts_layer_begin(r, k->w[0], TS_FORWARD));
  TS_DO(dots(d, l, r, k->s, w, x));
  TS_DO(ts_run_copy(l, r, y.p, d->n, k->w[1]->w, 0, d->n, false));
  TS_DO(ts_layer_end(r, k->w[0], TS_FORWARD));
  return by_number(d, l, r, y, k->s, x0, true);
}

/* dx_0 = (+= where ADD) dy s; dy += ds w. */
static ts_err vector_backward(const ts_cross_forms *d, const ts_layer *l,
                              const ts_layer_run *r, ts_form_layer *k,
                              ts_rows x0, ts_rows x, ts_rows dy, bool add) {
  const ts_rows w = {k->w[0]->w, 0};
  TS_DO(by_number(d, l, r, (ts_rows){d->dx0, d->n}, k->s, dy, add));
  TS_DO(dots(d, l, r, d->dp, dy, x0)); /* ds */
  TS_DO(ts_layer_begin(r, k->w[0], TS_BACKWARD));
  TS_DO(ts_run_bias_grad(l, r, k->w[1]->grad, dy.p, r->batch, dy.stride, d->n));
  TS_DO(ts_run_products(l, r, k->w[0]->grad, (ts_stride4){.c = 1}, d->dp,
                        (ts_stride4){.c = 1}, x.p,
                        (ts_stride4){.r = 1, .c = x.stride},
                        (ts_sizes){1, 1, 1, d->n, r->batch}, 1, false));
  TS_DO(by_number(d, l, r, dy, d->dp, w, true));
  TS_DO(ts_layer_gave(r, k->w, 2));
  return ts_layer_end(r, k->w[0], TS_BACKWARD);
}

/* ---- moe ----------------------------------------------------------------- */

static ts_err moe_create(ts_cross_forms *d, ts_layer *l, int32_t i,
                         ts_lane *lane) {
  ts_form_layer *k = &d->layer[i];
  const int32_t n = d->n, wide = d->e * d->r;
  const int32_t stride = i ? n : l->in[0].value->stride;
  const int64_t b = l->spec->batch_max;
  TS_DO(ts_rows_linear_make(&k->V, l, 4 * i, n, stride, wide, 1, 0, lane));
  TS_DO(ts_rows_linear_make(&k->G, l, 4 * i + 1, n, stride, d->e, 1, 0, lane));
  TS_DO(ts_layer_param(l, &k->w[0], 4 * i + 2, false, "weight", wide, d->r,
                       1 / sqrt((double)d->r)));
  TS_DO(ts_rows_linear_make(&k->U, l, 4 * i + 3, wide, wide, n, 1, TS_ROWS_BIAS,
                            lane));
  TS_DO(ts_layer_take(l, &k->s, b * d->e, 4));
  TS_DO(ts_layer_take(l, &k->a, b * wide, 4));
  TS_DO(ts_layer_take(l, &k->c, b * wide, 4));
  return ts_layer_take(l, &k->t, b * n, 4);
}

static ts_err moe_arrays(ts_cross_forms *d, ts_layer *l) {
  float **const of_pass[] = {&d->h, &d->g, &d->u, &d->du, &d->dh};
  const int64_t b = l->spec->batch_max;
  for (size_t i = 0; i < (l->spec->training ? 5 : 3); i++)
    TS_DO(ts_layer_take(l, of_pass[i], b * d->e * d->r, 4));
  TS_DO(ts_layer_take(l, &d->p, b * d->e, 4));
  return ts_layer_take(l, &d->dt, b * d->n, 4);
}

/* Strides of what experts give, as (e, sample, rank); the same as (e, rank,
 * sample). */
static ts_stride4 by_expert(const ts_cross_forms *d) {
  return (ts_stride4){.h = d->r, .r = (int64_t)d->e * d->r, .c = 1};
}
static ts_stride4 across(const ts_cross_forms *d) {
  return (ts_stride4){.h = d->r, .r = 1, .c = (int64_t)d->e * d->r};
}

static ts_err tanh_of(const ts_cross_forms *d, const ts_layer *l,
                      const ts_layer_run *r, const float *x, float *y,
                      float *dy) {
  const int32_t wide = d->e * d->r;
  return ts_run_act_rows(l, r, TS_ACT_TANH, r->batch, wide, x, wide, y, dy, dy,
                         dy ? TS_BACKWARD : TS_FORWARD);
}

/* Y = p_e x_e. */
static ts_err weigh(const ts_cross_forms *d, const ts_layer *l,
                    const ts_layer_run *r, float *y, const float *x) {
  const ts_stride4 rows = {.b = (int64_t)d->e * d->r, .r = d->r, .c = 1};
  return ts_run_times(l, r, y, rows, d->p, (ts_stride4){.b = d->e, .r = 1}, x,
                      rows, (ts_sizes){r->batch, 1, d->e, d->r, 1}, 1, false);
}

/* h, g, p and u from a, c and s, in both passes; c in the forward one alone: in
 * the backward pass U's turn comes before C's. */
static ts_err experts(const ts_cross_forms *d, const ts_layer *l,
                      const ts_layer_run *r, ts_form_layer *k, ts_pass pass) {
  TS_DO(tanh_of(d, l, r, k->a, d->h, NULL));
  if (pass == TS_FORWARD) {
    TS_DO(ts_layer_begin(r, k->w[0], pass));
    TS_DO(ts_run_products(
        l, r, k->c, by_expert(d), d->h, by_expert(d), k->w[0]->w,
        (ts_stride4){.h = (int64_t)d->r * d->r, .r = d->r, .c = 1},
        (ts_sizes){1, d->e, r->batch, d->r, d->r}, 1, false));
    TS_DO(ts_layer_end(r, k->w[0], pass));
  }
  TS_DO(tanh_of(d, l, r, k->c, d->g, NULL));
  TS_DO(ts_run_softmax(l, r, r->batch, d->e, k->s, d->p, NULL, TS_FORWARD));
  return weigh(d, l, r, d->u, d->g);
}

static ts_err moe_forward(ts_cross_forms *d, ts_layer *l, const ts_layer_run *r,
                          ts_form_layer *k, ts_rows x0, ts_rows x) {
  const ts_rows y = {k->y, d->n}, t = {k->t, d->n};
  TS_DO(ts_rows_linear_forward(&k->V, r, k->a, x.p));
  TS_DO(ts_rows_linear_forward(&k->G, r, k->s, x.p));
  TS_DO(experts(d, l, r, k, TS_FORWARD));
  TS_DO(ts_rows_linear_forward(&k->U, r, k->t, d->u));
  return ts_run_rows(l, r, TS_MAP_MULTIPLY, y, 1, x0, t, d->n, false);
}

/* C's gradient, and dh from dc = du. */
static ts_err middle_backward(const ts_cross_forms *d, const ts_layer *l,
                              const ts_layer_run *r, ts_form_layer *k) {
  const int64_t rr = (int64_t)d->r * d->r;
  TS_DO(ts_layer_begin(r, k->w[0], TS_BACKWARD));
  TS_DO(ts_run_products(l, r, k->w[0]->grad,
                        (ts_stride4){.h = rr, .r = d->r, .c = 1}, d->du,
                        across(d), d->h, across(d),
                        (ts_sizes){1, d->e, d->r, d->r, r->batch}, 1, false));
  TS_DO(ts_run_products(l, r, d->dh, by_expert(d), d->du, by_expert(d),
                        k->w[0]->w, (ts_stride4){.h = rr, .r = 1, .c = d->r},
                        (ts_sizes){1, d->e, r->batch, d->r, d->r}, 1, false));
  TS_DO(ts_layer_gave(r, k->w, 1));
  return ts_layer_end(r, k->w[0], TS_BACKWARD);
}

static ts_err moe_backward(ts_cross_forms *d, ts_layer *l,
                           const ts_layer_run *r, ts_form_layer *k, ts_rows x0,
                           ts_rows x, ts_rows dy, bool add) {
  const ts_rows dx0 = {d->dx0, d->n}, t = {k->t, d->n}, dt = {d->dt, d->n};
  const ts_stride4 each = {.b = (int64_t)d->e * d->r, .h = d->r, .c = 1};
  TS_DO(ts_run_rows(l, r, TS_MAP_MULTIPLY, dx0, 1, dy, t, d->n, add));
  TS_DO(ts_run_rows(l, r, TS_MAP_MULTIPLY, dt, 1, dy, x0, d->n, false));
  TS_DO(experts(d, l, r, k, TS_BACKWARD));
  TS_DO(ts_rows_linear_backward(&k->U, r, d->du, d->dt, d->u, k->t));
  TS_DO(ts_run_products(l, r, d->dp, (ts_stride4){.b = d->e, .h = 1}, d->du,
                        each, d->g, each,
                        (ts_sizes){r->batch, d->e, 1, 1, d->r}, 1, false));
  TS_DO(weigh(d, l, r, d->du, d->du));
  TS_DO(tanh_of(d, l, r, k->c, d->g, d->du));
  TS_DO(middle_backward(d, l, r, k));
  TS_DO(ts_run_softmax(l, r, r->batch, d->e, k->s, d->p, d->dp, TS_BACKWARD));
  TS_DO(ts_rows_linear_backward(&k->G, r, d->dx, d->dp, x.p, k->s));
  TS_DO(ts_run_copy(l, r, dy.p, dy.stride, d->dx, x.stride, d->n, true));
  TS_DO(tanh_of(d, l, r, k->a, d->h, d->dh));
  TS_DO(ts_rows_linear_backward(&k->V, r, d->dx, d->dh, x.p, k->a));
  return ts_run_copy(l, r, dy.p, dy.stride, d->dx, x.stride, d->n, true);
}

/* ---- both ---------------------------------------------------------------- */

ts_err ts_cross_forms_create(ts_cross_forms **out, ts_layer *l, ts_lane *lane) {
  const ts_cross_options *o = l->options;
  const int64_t b = l->spec->batch_max;
  ts_cross_forms *d;
  TS_DO(ts_mem_alloc(&d, sizeof *d, TS_TAG_DENSE));
  *out = d;
  d->n_layers = o->layers;
  d->n = ts_shape_width(l->out[0].shape);
  d->e = o->form == TS_CROSS_MOE ? o->experts : 1;
  d->r = o->rank;
  TS_DO(ts_mem_many(d->layer, d->n_layers, DENSE));
  for (int32_t i = 0; i < d->n_layers; i++) {
    TS_DO(d->r ? moe_create(d, l, i, lane) : vector_create(d, l, i));
    TS_DO(ts_layer_take(l, &d->layer[i].y, b * d->n, 4));
  }
  if (d->r) TS_DO(moe_arrays(d, l));
  if (!l->spec->training) return TS_OK;
  TS_DO(ts_layer_take(l, &d->dp, b * d->e, 4));
  TS_DO(ts_layer_take(l, &d->dx0, b * d->n, 4));
  return ts_layer_take(l, &d->dx, b * l->in[0].value->stride, 4);
}

void ts_cross_forms_destroy(ts_cross_forms *d) {
  if (!d) return;
  for (int32_t i = 0; d->layer && d->r && i < d->n_layers; i++) {
    ts_rows_linear_reset(&d->layer[i].V);
    ts_rows_linear_reset(&d->layer[i].G);
    ts_rows_linear_reset(&d->layer[i].U);
  }
  ts_mem_free_all(d->layer, d);
}

static ts_rows below(const ts_cross_forms *d, const ts_layer *l, int32_t i) {
  const ts_value *x = l->in[0].value;
  return i ? (ts_rows){d->layer[i - 1].y, d->n} : (ts_rows){x->x, x->stride};
}

ts_err ts_cross_forms_forward(ts_cross_forms *d, ts_layer *l,
                              const ts_layer_run *r) {
  for (int32_t i = 0; i < d->n_layers; i++) {
    ts_form_layer *k = &d->layer[i];
    const ts_rows x0 = below(d, l, 0), x = below(d, l, i);
    TS_DO(d->r ? moe_forward(d, l, r, k, x0, x)
               : vector_forward(d, l, r, k, x0, x));
    TS_DO(ts_run_copy(l, r, k->y, d->n, x.p, x.stride, d->n, true));
    if (i + 1 == d->n_layers && l->out[0].x != k->y) l->out[0].x = k->y;
  }
  return TS_OK;
}

ts_err ts_cross_forms_backward(ts_cross_forms *d, ts_layer *l,
                               const ts_layer_run *r) {
  const ts_rows dy = {l->out[0].dx, d->n};
  const ts_input *in = &l->in[0];
  for (int32_t i = d->n_layers - 1; i >= 0; i--) {
    ts_form_layer *k = &d->layer[i];
    const ts_rows x0 = below(d, l, 0), x = below(d, l, i);
    const bool add = i + 1 < d->n_layers;
    TS_DO(d->r ? moe_backward(d, l, r, k, x0, x, dy, add)
               : vector_backward(d, l, r, k, x0, x, dy, add));
  }
  if (!in->dx) return TS_OK;
  return ts_run_rows(l, r, TS_MAP_SUM, (ts_rows){in->dx, in->value->stride}, 1,
                     dy, (ts_rows){d->dx0, d->n}, d->n, false);
}
