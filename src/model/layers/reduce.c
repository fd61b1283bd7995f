/* reduce.c - sum, mean or largest over fields. */
#include "model/layer_ops.h"

typedef enum { SUM, MEAN, MAX } ts_reduce_by;

typedef struct ts_reduce_options {
  int by;
} ts_reduce_options;

static const ts_key keys[] = {
    {TS_SCOPE_LAYER, "by", TS_KEY_CHOICE, offsetof(ts_reduce_options, by),
     "\"sum\"", "", 1, 0, "sum|mean|max", "over the fields"},
};

static ts_err shape(ts_layer *l) {
  return ts_layer_gives(l, NULL, ts_vector_of(l->in[0].value->shape.dim));
}

static float scale_of(const ts_layer *l) {
  const ts_reduce_options *o = l->options;
  return o->by == MEAN ? 1 / (float)l->in[0].value->shape.fields : 1;
}

static ts_max_args largest(const ts_layer *l, const ts_layer_run *r) {
  const ts_value *x = l->in[0].value;
  return (ts_max_args){.x = x->x,
                       .y = l->out[0].x,
                       .dx = l->in[0].dx,
                       .dy = l->out[0].dx,
                       .rows = r->batch,
                       .x_stride = x->stride,
                       .y_stride = x->shape.dim,
                       .n_i = x->shape.fields,
                       .n_j = x->shape.dim};
}

static ts_err forward(ts_layer *l, const ts_layer_run *r) {
  const ts_reduce_options *o = l->options;
  const ts_value *x = l->in[0].value;
  const ts_max_args max = largest(l, r);
  const ts_contract_args sum = {
      .c = l->out[0].x,
      .a = x->x,
      .cs = {.b = x->shape.dim, .r = 1},
      .as = {.b = x->stride, .r = 1, .c = x->shape.dim},
      .n_b = r->batch,
      .n_k = x->shape.fields,
      .n_h = 1,
      .n_i = x->shape.dim,
      .n_j = 1,
      .scale = scale_of(l)};
  return o->by == MAX ? ts_run_max(l, r, &max, TS_FORWARD)
                      : ts_run_contract(l, r, &sum);
}

static ts_err backward(ts_layer *l, const ts_layer_run *r) {
  const ts_reduce_options *o = l->options;
  const ts_input *in = &l->in[0];
  const ts_shape s = in->value->shape;
  const ts_max_args max = largest(l, r);
  const ts_map_args spread = {
      .y = in->dx,
      .a = l->out[0].dx,
      .ys = {.b = in->value->stride, .r = s.dim, .c = 1},
      .as = {.b = s.dim, .c = 1},
      .n_b = r->batch,
      .n_h = 1,
      .n_i = s.fields,
      .n_j = s.dim,
      .op = TS_MAP_MULTIPLY,
      .scale = scale_of(l)};
  if (!in->dx) return TS_OK;
  return o->by == MAX ? ts_run_max(l, r, &max, TS_BACKWARD)
                      : ts_run_map(l, r, &spread);
}

const ts_layer_ops ts_layer_reduce = {
    .kind = "reduce",
    .keys = keys,
    .n_keys = sizeof keys / sizeof *keys,
    .options_bytes = sizeof(ts_reduce_options),
    .least = 1,
    .most = 1,
    .wants_fields = true,
    .keeps_in = true,
    .shape = shape,
    .forward = forward,
    .backward = backward,
    .page = "y_d = sum over f of x_fd; its mean, or the largest x_fd, whose\n"
            "gradient is that of the first largest\n"
            "\n"
            "  in    fields (B, F, d)\n"
            "  out   (B, d)\n"};
