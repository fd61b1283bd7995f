/* concat.c - values side by side: of the deck, and where the graph needs one
 * row of several (model/graph.h); stack and flatten, which differ in the shape
 * that they give.  Embeddings are read as they come. */
#include <string.h>

#include "base/features.h"
#include "base/mem.h"
#include "model/layer_ops.h"

/* A part of the row: a value, or the embedding of a feature. */
typedef struct ts_part {
  int32_t in, feature; /* input; its feature, -1: a value */
  int32_t k;           /* the feature's place in the input's set */
  int32_t at, width;
} ts_part;

typedef struct ts_concat {
  ts_part *part; /* (n) */
  int32_t n, width;
  int32_t n_copied; /* parts that don't lie in the row already */
  /* As the kernel wants them; filled by its tasks alone. */
  float **row;
  int64_t *stride;
  int32_t *at, *cols;
} ts_concat;

static ts_err add_part(ts_concat *c, ts_part p) {
  TS_DO(ts_mem_extend(&c->part, c->n, c->n + 1, sizeof *c->part, TS_TAG_DENSE));
  p.at = c->width;
  c->part[c->n++] = p;
  c->width += p.width;
  return TS_OK;
}

/* Whether all are of one dim, and how many fields they are: a vector counts as
 * one. */
static bool as_fields(const ts_layer *l, int32_t *fields, int32_t *dim) {
  bool any = l->stacks;
  *fields = *dim = 0;
  for (int32_t k = 0; k < l->n_in[TS_ROLE_IN]; k++) {
    const ts_shape s = l->in[k].value->shape;
    if (k && s.dim != *dim) return false;
    *dim = s.dim;
    *fields += s.fields;
    any |= s.form == TS_FIELDS;
  }
  return any && *fields > 1 && !l->tokens;
}

static ts_err find_parts(ts_layer *l) {
  ts_concat *c = l->data;
  for (int32_t k = 0; k < l->n_in[TS_ROLE_IN]; k++) {
    const ts_value *v = l->in[k].value;
    for (int32_t i = 0; v->emb && i < v->emb->n && c->width <= TS_WIDTH_MAX;
         i++) {
      const int32_t f = v->emb->feature[i];
      const ts_config *deck = l->spec->config;
      const int32_t wide = ts_feature_table(deck, f, NULL)->dim;
      TS_DO(
          add_part(c, (ts_part){.in = k, .feature = f, .k = i, .width = wide}));
    }
    if (!v->emb)
      TS_DO(add_part(c, (ts_part){.in = k,
                                  .feature = -1,
                                  .width = ts_shape_width(v->shape)}));
    if (c->width > TS_WIDTH_MAX) break;
  }
  return TS_OK;
}

static ts_err shape(ts_layer *l) {
  ts_concat *c = l->data;
  int32_t fields, dim;
  TS_DO(find_parts(l));
  TS_DO(ts_layer_gives(l, NULL,
                       as_fields(l, &fields, &dim) ? ts_fields_of(fields, dim)
                                                   : ts_vector_of(c->width)));
  l->out[0].stride = (c->width + 31) / 32 * 32; /* as products like it */
  return TS_OK;
}

static ts_err flat_shape(ts_layer *l) {
  const ts_concat *c = l->data;
  TS_DO(find_parts(l));
  return ts_layer_gives(l, NULL, ts_vector_of(c->width));
}

/* Of the vectors that a part is. */
static int32_t width_of(const ts_layer *l, const ts_part *p) {
  return p->feature < 0 ? l->in[p->in].value->shape.dim : p->width;
}

static ts_err stack_shape(ts_layer *l) {
  const ts_concat *c = l->data;
  TS_DO(find_parts(l));
  const int32_t dim = width_of(l, &c->part[0]);
  for (int32_t k = 0; k < c->n; k++) {
    char text[TS_SHAPE_BYTES];
    const ts_value *v = l->in[c->part[k].in].value;
    if (width_of(l, &c->part[k]) != dim)
      return ts_layer_fail(l,
                           "\"%.80s\" is %s, but \"%.80s\" begins with a "
                           "vector of %d: fields are of one width, and kind "
                           "project makes them so",
                           v->name, ts_layer_shape_text(text, v->shape),
                           l->in[0].value->name, dim);
  }
  TS_DO(ts_layer_gives(l, NULL, ts_fields_of(c->width / dim, dim)));
  l->out[0].stride = (c->width + 31) / 32 * 32; /* as products like it */
  return TS_OK;
}

static ts_err create(ts_layer *l, ts_lane *lane) {
  (void)lane;
  ts_concat *c = l->data;
  for (int32_t k = 0; k < c->n; k++)
    c->n_copied += !l->in[c->part[k].in].value->row;
  TS_DO(ts_mem_many(c->row, c->n, DENSE));
  TS_DO(ts_mem_many(c->stride, c->n, DENSE));
  TS_DO(ts_mem_many(c->at, c->n, DENSE));
  return ts_mem_many(c->cols, c->n, DENSE);
}

static void destroy(ts_layer *l) {
  ts_concat *c = l->data;
  ts_mem_free_all(c->part, c->row, c->stride, c->at, c->cols);
}

typedef struct ts_concat_arg {
  const ts_layer *l;
  ts_emb_views views;
  float *wide, *dense; /* dense: of this batch */
  int32_t batch;
  bool split;
} ts_concat_arg;

/* The parts' pointers, of those that have one: gradients of some are not
 * wanted, and those that lie in the row are there. */
static int32_t fill(const ts_concat_arg *a, bool adds) {
  ts_concat *c = a->l->data;
  int32_t n = 0;
  for (int32_t k = 0; k < c->n; k++) {
    const ts_part *p = &c->part[k];
    const ts_input *in = &a->l->in[p->in];
    const bool view = p->feature >= 0;
    float *row = view                  ? (float *)a->views.data[p->feature]
                 : in->value->is_input ? a->dense
                                       : in->value->x;
    if (a->split) row = view ? a->views.grad[p->feature] : in->dx;
    if (!row || in->value->row ||
        (a->split && (view && in->adds && in->adds[p->k]) != adds))
      continue;
    c->row[n] = row;
    c->stride[n] = view ? a->views.stride[p->feature] : in->value->stride;
    c->at[n] = p->at;
    c->cols[n++] = p->width;
  }
  return n;
}

static ts_err add_part_grads(const ts_concat_arg *a, int32_t n) {
  const ts_concat *c = a->l->data;
  for (int32_t k = 0; k < n; k++) {
    const ts_map_args m = {.y = c->row[k],
                           .a = a->wide + c->at[k],
                           .ys = {.b = c->stride[k], .c = 1},
                           .as = {.b = a->l->out[0].stride, .c = 1},
                           .n_b = a->batch,
                           .n_h = 1,
                           .n_i = 1,
                           .n_j = c->cols[k],
                           .op = TS_MAP_MULTIPLY,
                           .scale = 1,
                           .add = true};
    TS_DO(a->l->spec->kernels->map(&m));
  }
  return TS_OK;
}

static ts_err task(void *arg, ts_lane *lane) {
  (void)lane;
  const ts_concat_arg *a = arg;
  const ts_concat *c = a->l->data;
  const ts_kernels *k = a->l->spec->kernels;
  ts_join_args j = {.wide = a->wide,
                    .n_parts = fill(a, false),
                    .part = c->row,
                    .part_stride = c->stride,
                    .at = c->at,
                    .width = c->cols,
                    .stride = a->l->out[0].stride,
                    .batch = a->batch,
                    .half = a->l->out[0].half};
  TS_DO(a->split ? k->split_rows(&j) : k->join_rows(&j));
  return a->split ? add_part_grads(a, fill(a, true)) : TS_OK;
}

static ts_err submit(ts_layer *l, const ts_layer_run *r, float *wide,
                     bool split) {
  ts_concat_arg a = {l, *r->views, wide, NULL, r->batch, split};
  if (!((ts_concat *)l->data)->n_copied) return TS_OK;
  for (int32_t k = 0; k < l->n_in[TS_ROLE_IN]; k++)
    if (l->in[k].value->is_input) a.dense = l->in[k].value->x;
  return ts_lane_submit(r->lane, split ? "concatenate backward" : "concatenate",
                        task, &a, sizeof a);
}

static ts_err forward(ts_layer *l, const ts_layer_run *r) {
  return submit(l, r, l->out[0].x, false);
}

static ts_err backward(ts_layer *l, const ts_layer_run *r) {
  return submit(l, r, l->out[0].dx, true);
}

extern const ts_layer_ops ts_layer_cross;

/* For cross layers alone, which keep all they have in bf16: what an mlp gives
 * back goes to tables in f32, with no rounding on its way.  Gradients that are
 * added are read as f32, and rows of bf16 are padded. */
static bool gives_half(const ts_layer *l, const ts_layer *reader) {
  for (int32_t k = 0; k < l->n_in[TS_ROLE_IN]; k++)
    for (int32_t i = 0; l->in[k].adds && i < l->in[k].value->emb->n; i++)
      if (l->in[k].adds[i]) return false;
  return reader->ops == &ts_layer_cross && l->out[0].stride % 32 == 0;
}

#define KIND(name, its_shape, its_tokens, text)                                \
  const ts_layer_ops ts_layer_##name = {.kind = #name,                         \
                                        .tokens = its_tokens,                  \
                                        .data_bytes = sizeof(ts_concat),       \
                                        .least = 1,                            \
                                        .reads_embeddings = true,              \
                                        .joins = true,                         \
                                        .shape = its_shape,                    \
                                        .create = create,                      \
                                        .destroy = destroy,                    \
                                        .forward = forward,                    \
                                        .backward = backward,                  \
                                        .gives_half = gives_half,              \
                                        .page = text}

KIND(concat, shape, TS_BY_ROW,
     "The inputs side by side, in their order.\n"
     "\n"
     "  in    any vectors or fields\n"
     "  in    or tokens, equally many of each sample\n"
     "  out   (B, sum of the widths); where all inputs have one dim and\n"
     "        one of them is fields: (B, F, d), a vector being one field\n");
KIND(stack, stack_shape, TS_NO_TOKENS,
     "Vectors of one width as fields, in their order.\n"
     "\n"
     "  in    vectors (B, d), each one field, and fields (B, F, d)\n"
     "  out   (B, sum of the fields, d)\n");
KIND(flatten, flat_shape, TS_NO_TOKENS,
     "The inputs side by side, in their order, as one vector.\n"
     "\n"
     "  in    any vectors or fields\n"
     "  out   (B, sum of the widths)\n");
