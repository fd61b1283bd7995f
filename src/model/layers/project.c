/* project.c - fields and features of any widths to fields of one. */
#include "base/dense_columns.h"
#include "base/features.h"
#include "base/mem.h"
#include "model/layer_ops.h"

#include <math.h>

enum { COLUMNS_MAX = 16384 };

typedef struct ts_project_options {
  int32_t dim;
  bool bias;
} ts_project_options;

static const ts_key keys[] = {
    {TS_SCOPE_LAYER, "dim", TS_KEY_INT32, offsetof(ts_project_options, dim),
     NULL, "", 1, 65536, NULL, "width of each field of its output"},
    {TS_SCOPE_LAYER, "bias", TS_KEY_BOOL, offsetof(ts_project_options, bias),
     "true", "", 1, 0, NULL, "whether b is there"},
};

/* A vector of input IN, columns [at, at + width). */
typedef struct ts_vector_part {
  int32_t in, at, width;
  ts_param *p[2];
  ts_linear *linear; /* of bf16; NULL: f32, by contract */
} ts_vector_part;

typedef struct ts_project {
  ts_vector_part *part; /* (n) */
  int32_t n;
} ts_project;

static ts_err add_part(ts_project *d, int32_t in, int32_t *at, int32_t width) {
  TS_DO(ts_mem_extend(&d->part, d->n, d->n + 1, sizeof *d->part, TS_TAG_DENSE));
  d->part[d->n++] = (ts_vector_part){.in = in, .at = *at, .width = width};
  *at += width;
  return TS_OK;
}

static ts_err shape(ts_layer *l) {
  ts_project *d = l->data;
  const ts_project_options *o = l->options;
  const ts_config *c = l->spec->config;
  for (int32_t k = 0; k < l->n_in[TS_ROLE_IN]; k++) {
    const ts_value *v = l->in[k].value;
    const ts_emb_set *set = l->in[k].joined;
    int32_t at = 0;
    for (int32_t i = 0; set && i < set->n; i++)
      TS_DO(
          add_part(d, k, &at, ts_feature_table(c, set->feature[i], NULL)->dim));
    const int32_t n_columns = c->model.dense_features;
    if (v->is_input && n_columns > COLUMNS_MAX)
      return ts_layer_fail(l, "it takes %d dense columns at most, there are %d",
                           COLUMNS_MAX, n_columns);
    for (int32_t i = 0; v->is_input && i < n_columns; i++)
      TS_DO(add_part(d, k, &at, ts_dense_column(c, i).n));
    for (int32_t i = 0; !set && !v->is_input && i < v->shape.fields; i++)
      TS_DO(add_part(d, k, &at, v->shape.dim));
  }
  return ts_layer_gives(
      l, NULL, d->n > 1 ? ts_fields_of(d->n, o->dim) : ts_vector_of(o->dim));
}

static ts_err create_linear(ts_layer *l, ts_vector_part *p, ts_lane *lane) {
  const ts_project_options *o = l->options;
  const ts_input *in = &l->in[p->in];
  const ts_linear_spec s = {.n_in = p->width,
                            .n_out = o->dim,
                            .in_stride = in->value->stride,
                            .out_stride = l->out[0].stride,
                            .need_dx = in->dx != NULL};
  return ts_layer_part(&p->linear, l, &s, p->p[0], p->p[1], lane);
}

static ts_err create(ts_layer *l, ts_lane *lane) {
  ts_project *d = l->data;
  const ts_project_options *o = l->options;
  for (int32_t i = 0; i < d->n; i++) {
    ts_vector_part *p = &d->part[i];
    const double bound = 1 / sqrt((double)p->width);
    TS_DO(ts_layer_param(l, &p->p[0], i, false, "weight", o->dim, p->width,
                         bound));
    if (o->bias)
      TS_DO(ts_layer_param(l, &p->p[1], i, false, "bias", o->dim, 0, bound));
    TS_DO(create_linear(l, p, lane));
  }
  return TS_OK;
}

static void destroy(ts_layer *l) {
  ts_project *d = l->data;
  for (int32_t i = 0; i < d->n; i++) ts_linear_destroy(d->part[i].linear);
  ts_mem_free(d->part);
}

/* y = W x + b of part I. */
static ts_err part_forward(const ts_layer *l, const ts_layer_run *r,
                           int32_t i) {
  const ts_project *d = l->data;
  const ts_project_options *o = l->options;
  const ts_vector_part *p = &d->part[i];
  const ts_value *x = l->in[p->in].value, *out = &l->out[0];
  const ts_rows y = {out->x + i * o->dim, out->stride}, none = {0};
  const ts_contract_args a = {.c = y.p,
                              .a = x->x + p->at,
                              .b = p->p[0]->w,
                              .cs = {.r = y.stride, .c = 1},
                              .as = {.r = x->stride, .c = 1},
                              .bs = {.r = p->width, .c = 1},
                              .n_b = 1,
                              .n_k = p->width,
                              .n_h = 1,
                              .n_i = r->batch,
                              .n_j = o->dim,
                              .scale = 1};
  if (p->linear)
    return ts_linear_forward(p->linear, y.p, a.a, r->batch, r->lane);
  TS_DO(ts_run_contract(l, r, &a));
  if (!p->p[1]) return TS_OK;
  return ts_run_rows(l, r, TS_MAP_MULTIPLY, y, 1, (ts_rows){p->p[1]->w, 0},
                     none, o->dim, true);
}

/* dW = sum of dy x^T, db = sum of dy, dx = W^T dy. */
static ts_err part_backward(const ts_layer *l, const ts_layer_run *r,
                            int32_t i) {
  const ts_project *d = l->data;
  const ts_project_options *o = l->options;
  const ts_vector_part *p = &d->part[i];
  const ts_input *in = &l->in[p->in];
  const int64_t x_stride = in->value->stride, y_stride = l->out[0].stride;
  float *dy = l->out[0].dx + i * o->dim;
  const ts_contract_args dw = {.c = p->p[0]->grad,
                               .a = dy,
                               .b = in->value->x + p->at,
                               .cs = {.r = p->width, .c = 1},
                               .as = {.r = 1, .c = y_stride},
                               .bs = {.r = 1, .c = x_stride},
                               .n_b = 1,
                               .n_k = r->batch,
                               .n_h = 1,
                               .n_i = o->dim,
                               .n_j = p->width,
                               .scale = 1};
  const ts_contract_args dx = {.c = in->dx ? in->dx + p->at : NULL,
                               .a = dy,
                               .b = p->p[0]->w,
                               .cs = {.r = x_stride, .c = 1},
                               .as = {.r = y_stride, .c = 1},
                               .bs = {.r = 1, .c = p->width},
                               .n_b = 1,
                               .n_k = o->dim,
                               .n_h = 1,
                               .n_i = r->batch,
                               .n_j = p->width,
                               .scale = 1};
  if (p->linear)
    return ts_linear_backward(p->linear, dx.c, dy, dw.b,
                              l->out[0].x + i * o->dim, r->batch, r->lane);
  TS_DO(ts_run_contract(l, r, &dw));
  if (p->p[1])
    TS_DO(
        ts_run_bias_grad(l, r, p->p[1]->grad, dy, r->batch, y_stride, o->dim));
  return in->dx ? ts_run_contract(l, r, &dx) : TS_OK;
}

static ts_err forward(ts_layer *l, const ts_layer_run *r) {
  const ts_project *d = l->data;
  for (int32_t i = 0; i < d->n; i++) {
    TS_DO(ts_layer_begin(r, d->part[i].p[0], TS_FORWARD));
    TS_DO(part_forward(l, r, i));
    TS_DO(ts_layer_end(r, d->part[i].p[0], TS_FORWARD));
  }
  return TS_OK;
}

static ts_err backward(ts_layer *l, const ts_layer_run *r) {
  const ts_project *d = l->data;
  for (int32_t i = d->n - 1; i >= 0; i--) {
    ts_param *const *p = d->part[i].p;
    TS_DO(ts_layer_begin(r, p[0], TS_BACKWARD));
    TS_DO(part_backward(l, r, i));
    TS_DO(ts_layer_gave(r, p, p[1] ? 2 : 1));
    TS_DO(ts_layer_end(r, p[0], TS_BACKWARD));
  }
  return TS_OK;
}

const ts_layer_ops ts_layer_project = {
    .kind = "project",
    .keys = keys,
    .n_keys = sizeof keys / sizeof *keys,
    .options_bytes = sizeof(ts_project_options),
    .data_bytes = sizeof(ts_project),
    .least = 1,
    .keeps_in = true,
    .any_stride = true,
    .shape = shape,
    .create = create,
    .destroy = destroy,
    .forward = forward,
    .backward = backward,
    .page =
        "y_i = W_i x_i + b_i: each vector by a linear layer of its own, so\n"
        "that features of different dims become fields of one, and so do\n"
        "the numbers that dense columns are made into\n"
        "\n"
        "  in    vectors, each one x_i; fields, embeddings and dense, whose\n"
        "        fields, features and columns are each one: a column with\n"
        "        transform piecewise_linear has all of its numbers\n"
        "        (Y. Gorishniy et al., \"On Embeddings for Numerical Features\n"
        "        in Tabular Deep Learning\", NeurIPS 2022)\n"
        "  out   (B, their number, dim); of one vector (B, dim)\n"
        "  NAME.i.weight (dim, width of x_i), NAME.i.bias (dim): uniform in\n"
        "        +-1/sqrt(width), as PyTorch's Linear has them\n"};
