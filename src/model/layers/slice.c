/* slice.c - some of a vector's columns, or some of the fields. */
#include "model/layer_ops.h"

typedef struct ts_slice_options {
  int32_t from, to;
} ts_slice_options;

static const ts_key keys[] = {
    {TS_SCOPE_LAYER, "from", TS_KEY_INT32, offsetof(ts_slice_options, from),
     "0", "", 0, TS_WIDTH_MAX, NULL, "the first, counted from 0"},
    {TS_SCOPE_LAYER, "to", TS_KEY_INT32, offsetof(ts_slice_options, to), NULL,
     "", 1, TS_WIDTH_MAX, NULL, "the one behind the last"},
};

static ts_err shape(ts_layer *l) {
  const ts_slice_options *o = l->options;
  const ts_value *x = l->in[0].value;
  const bool fields = x->shape.form == TS_FIELDS;
  const int32_t n = fields ? x->shape.fields : x->shape.dim;
  char text[TS_SHAPE_BYTES];
  if (o->from >= o->to || o->to > n)
    return ts_layer_fail(l,
                         "from = %d, to = %d, but \"%.80s\" is %s: from < to "
                         "<= %d",
                         o->from, o->to, x->name,
                         ts_layer_shape_text(text, x->shape), n);
  if (!fields) return ts_layer_gives(l, NULL, ts_vector_of(o->to - o->from));
  return ts_layer_gives(l, NULL,
                        o->to - o->from == 1
                            ? ts_vector_of(x->shape.dim)
                            : ts_fields_of(o->to - o->from, x->shape.dim));
}

/* Of the columns. */
static int32_t first_of(const ts_layer *l) {
  const ts_slice_options *o = l->options;
  const ts_shape s = l->in[0].value->shape;
  return o->from * (s.form == TS_FIELDS ? s.dim : 1);
}

static ts_err forward(ts_layer *l, const ts_layer_run *r) {
  const ts_value *x = l->in[0].value, *y = &l->out[0];
  return ts_run_copy(l, r, y->x, y->stride, x->x + first_of(l), x->stride,
                     ts_shape_width(y->shape), false);
}

static ts_err backward(ts_layer *l, const ts_layer_run *r) {
  const ts_input *in = &l->in[0];
  const ts_value *y = &l->out[0];
  const size_t row = (size_t)in->value->stride * sizeof(float);
  if (!in->dx) return TS_OK;
  if (!in->add) TS_DO(ts_run_zero(l, r, in->dx, (size_t)r->batch * row));
  return ts_run_copy(l, r, in->dx + first_of(l), in->value->stride, y->dx,
                     y->stride, ts_shape_width(y->shape), in->add);
}

const ts_layer_ops ts_layer_slice = {
    .kind = "slice",
    .keys = keys,
    .n_keys = sizeof keys / sizeof *keys,
    .options_bytes = sizeof(ts_slice_options),
    .least = 1,
    .most = 1,
    .adds_dx = true,
    .any_stride = true,
    .shape = shape,
    .forward = forward,
    .backward = backward,
    .page = "Columns [from, to) of a vector; of fields these fields\n"
            "\n"
            "  in    vectors, side by side, or fields (B, F, d)\n"
            "  out   (B, to - from); (B, to - from, d), one field as a\n"
            "        vector (B, d)\n"};
