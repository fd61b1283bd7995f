/* gate_mask.c - MaskNet's mask block. */
#include "model/layers/gate.h"

/* e. */
static const ts_input *embeddings(const ts_layer *l) {
  const ts_input *gate = ts_layer_in(l, TS_ROLE_GATE, 0);
  return gate ? gate : &l->in[0];
}

/* Y = a x. */
static ts_err times(const ts_layer *l, const ts_layer_run *r, ts_rows y,
                    ts_rows a, ts_rows x, int32_t n) {
  return ts_run_rows(l, r, TS_MAP_MULTIPLY, y, 1, a, x, n, false);
}

static int32_t hidden(const ts_layer *l) {
  const ts_gate_options *o = l->options;
  return o->hidden ? o->hidden : ts_shape_width(l->in[0].value->shape);
}

static ts_err create_linears(ts_layer *l, ts_lane *lane) {
  const ts_gate_options *o = l->options;
  ts_gate *d = l->data;
  const ts_value *x = l->in[0].value, *e = embeddings(l)->value;
  const int32_t n = ts_shape_width(x->shape), h = hidden(l);
  const unsigned dx = embeddings(l)->dx ? 0 : TS_ROWS_NO_DX;
  TS_DO(ts_rows_linear_make(&d->mask[0], l, 0, ts_shape_width(e->shape),
                            e->stride, h, 1, TS_ROWS_BIAS | TS_ROWS_RELU | dx,
                            lane));
  TS_DO(ts_rows_linear_make(&d->mask[1], l, 1, h, h, n, 1, TS_ROWS_BIAS, lane));
  TS_DO(ts_rows_linear_make(&d->mask[2], l, 2, n, n, o->units, 1, 0, lane));
  if (!o->norm) return TS_OK;
  TS_DO(ts_layer_param(l, &d->norm[0], 3, false, "weight", o->units, 0,
                       TS_BOUND_ONES));
  return ts_layer_param(l, &d->norm[1], 3, false, "bias", o->units, 0, 0);
}

ts_err ts_gate_mask_create(ts_layer *l, ts_lane *lane) {
  const ts_gate_options *o = l->options;
  ts_gate *d = l->data;
  const int64_t b = l->spec->batch_max;
  const int32_t n = ts_shape_width(l->in[0].value->shape), h = hidden(l);
  TS_DO(create_linears(l, lane));
  TS_DO(ts_layer_take(l, &d->h, b * h, 4));
  TS_DO(ts_layer_take(l, &d->m, b * n, 4));
  TS_DO(ts_layer_take(l, &d->v, b * n, 4));
  TS_DO(ts_layer_take(l, &d->t, b * o->units, 4));
  if (!l->spec->training) return TS_OK;
  TS_DO(ts_layer_take(l, &d->dh, b * h, 4));
  TS_DO(ts_layer_take(l, &d->dm, b * n, 4));
  TS_DO(ts_layer_take(l, &d->dv, b * n, 4));
  if (l->n_in[TS_ROLE_GATE]) return TS_OK;
  return ts_layer_take(l, &d->de, b * l->in[0].value->stride, 4);
}

/* y = relu(norm(t)); backward from out's dx in its place. */
static ts_err finish(const ts_layer *l, const ts_layer_run *r, ts_pass pass) {
  const ts_gate_options *o = l->options;
  const ts_gate *d = l->data;
  const ts_value *y = &l->out[0];
  const ts_norm_args n = {.x = d->t,
                          .y = y->x,
                          .dy = y->dx,
                          .dx = y->dx,
                          .gain = o->norm ? d->norm[0]->w : NULL,
                          .bias = o->norm ? d->norm[1]->w : NULL,
                          .dgain = o->norm ? d->norm[0]->grad : NULL,
                          .dbias = o->norm ? d->norm[1]->grad : NULL,
                          .rows = r->batch,
                          .x_stride = o->units,
                          .y_stride = o->units,
                          .n = o->units,
                          .kind = TS_NORM_LAYER,
                          .eps = 1e-5f};
  if (o->norm && pass == TS_FORWARD) TS_DO(ts_run_norm(l, r, &n, pass));
  TS_DO(ts_run_act_rows(l, r, TS_ACT_RELU, r->batch, o->units,
                        o->norm || pass == TS_BACKWARD ? y->x : d->t, o->units,
                        y->x, y->dx, y->dx, pass));
  return o->norm && pass == TS_BACKWARD ? ts_run_norm(l, r, &n, pass) : TS_OK;
}

static ts_err begin(const ts_layer *l, const ts_layer_run *r, ts_pass pass) {
  const ts_gate *d = l->data;
  return d->norm[0] ? ts_layer_begin(r, d->norm[0], pass) : TS_OK;
}

static ts_err end(const ts_layer *l, const ts_layer_run *r, ts_pass pass) {
  const ts_gate *d = l->data;
  if (!d->norm[0]) return TS_OK;
  if (pass == TS_BACKWARD) TS_DO(ts_layer_gave(r, d->norm, 2));
  return ts_layer_end(r, d->norm[0], pass);
}

ts_err ts_gate_mask_forward(ts_layer *l, const ts_layer_run *r) {
  ts_gate *d = l->data;
  const ts_value *x = l->in[0].value;
  const int32_t n = ts_shape_width(x->shape);
  TS_DO(ts_rows_linear_forward(&d->mask[0], r, d->h, embeddings(l)->value->x));
  TS_DO(ts_rows_linear_forward(&d->mask[1], r, d->m, d->h));
  TS_DO(times(l, r, (ts_rows){d->v, n}, (ts_rows){d->m, n},
              (ts_rows){x->x, x->stride}, n));
  TS_DO(ts_rows_linear_forward(&d->mask[2], r, d->t, d->v));
  TS_DO(begin(l, r, TS_FORWARD));
  TS_DO(finish(l, r, TS_FORWARD));
  return end(l, r, TS_FORWARD);
}

ts_err ts_gate_mask_backward(ts_layer *l, const ts_layer_run *r) {
  ts_gate *d = l->data;
  const ts_input *in = &l->in[0], *e = embeddings(l);
  const ts_value *x = in->value;
  const int32_t n = ts_shape_width(x->shape);
  const ts_rows dv = {d->dv, n};
  TS_DO(begin(l, r, TS_BACKWARD));
  TS_DO(finish(l, r, TS_BACKWARD));
  TS_DO(end(l, r, TS_BACKWARD));
  TS_DO(
      ts_rows_linear_backward(&d->mask[2], r, dv.p, l->out[0].dx, d->v, d->t));
  TS_DO(times(l, r, (ts_rows){d->dm, n}, dv, (ts_rows){x->x, x->stride}, n));
  if (in->dx)
    TS_DO(times(l, r, (ts_rows){in->dx, x->stride}, dv, (ts_rows){d->m, n}, n));
  TS_DO(ts_rows_linear_backward(&d->mask[1], r, d->dh, d->dm, d->h, d->m));
  float *de = d->de && in->dx ? d->de : e->dx;
  TS_DO(ts_rows_linear_backward(&d->mask[0], r, de, d->dh, e->value->x, d->h));
  if (de != d->de || !de) return TS_OK;
  return ts_run_copy(l, r, in->dx, x->stride, de, x->stride, n, true);
}
