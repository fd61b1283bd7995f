/* add.c - y = the sum of its inputs. */
#include "model/layer_ops.h"

static ts_err shape(ts_layer *l) {
  const ts_value *first = l->in[0].value;
  for (int32_t k = 1; k < l->n_in[TS_ROLE_IN]; k++) {
    const ts_value *v = l->in[k].value;
    char a[TS_SHAPE_BYTES], b[TS_SHAPE_BYTES];
    if (v->shape.fields == first->shape.fields &&
        v->shape.dim == first->shape.dim)
      continue;
    return ts_layer_fail(l,
                         "\"%.80s\" is %s, but \"%.80s\" is %s: its inputs "
                         "must be of one shape",
                         first->name, ts_layer_shape_text(a, first->shape),
                         v->name, ts_layer_shape_text(b, v->shape));
  }
  return ts_layer_gives(l, NULL, first->shape);
}

static ts_err forward(ts_layer *l, const ts_layer_run *r) {
  const ts_value *y = &l->out[0];
  const int32_t n = ts_shape_width(y->shape), n_in = l->n_in[TS_ROLE_IN];
  const ts_value *a = l->in[0].value, *b = l->in[1 % n_in].value;
  /* The first two at once: y goes to memory once less. */
  if (n_in > 1)
    TS_DO(ts_run_rows(l, r, TS_MAP_SUM, (ts_rows){y->x, y->stride}, 1,
                      (ts_rows){a->x, a->stride}, (ts_rows){b->x, b->stride}, n,
                      false));
  for (int32_t k = n_in > 1 ? 2 : 0; k < n_in; k++) {
    const ts_value *x = l->in[k].value;
    TS_DO(ts_run_copy(l, r, y->x, y->stride, x->x, x->stride, n, k > 0));
  }
  return TS_OK;
}

static ts_err backward(ts_layer *l, const ts_layer_run *r) {
  const ts_value *y = &l->out[0];
  const int32_t n = ts_shape_width(y->shape);
  for (int32_t k = 0; k < l->n_in[TS_ROLE_IN]; k++) {
    const ts_input *in = &l->in[k];
    if (!in->dx) continue;
    TS_DO(ts_run_copy(l, r, in->dx, in->value->stride, y->dx, y->stride, n,
                      false));
  }
  return TS_OK;
}

const ts_layer_ops ts_layer_add = {
    .kind = "add",
    .tokens = TS_BY_ROW,
    .least = 1,
    .any_stride = true,
    .shape = shape,
    .forward = forward,
    .backward = backward,
    .page = "y = x_1 + .. + x_k\n"
            "\n"
            "  in    any number of inputs of one shape\n"
            "  out   that shape\n"};
