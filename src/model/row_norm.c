/* row_norm.c - norms of rows with their parameters. */
#include "model/row_norm.h"

#include <stdio.h>

ts_err ts_row_norm_create(ts_row_norm *m, ts_layer *l,
                          const ts_row_norm_spec *s) {
  char name[48];
  const int n_params = !s->affine                 ? 0
                       : s->kind == TS_NORM_LAYER ? 2
                       : s->kind == TS_NORM_RMS   ? 1
                                                  : 0;
  *m = (ts_row_norm){.kind = s->kind,
                     .n = s->n,
                     .rows_each = s->rows_each,
                     .eps = (float)s->eps};
  for (int k = 0; k < n_params; k++) {
    snprintf(name, sizeof name, "%s%s", s->prefix, k ? "bias" : "weight");
    TS_DO(ts_layer_param(l, &m->p[k], s->i, false, name, s->n, 0,
                         k ? 0 : TS_BOUND_ONES));
  }
  return TS_OK;
}

static ts_norm_args args_of(const ts_row_norm *m, const ts_layer_run *r,
                            const float *x) {
  return (ts_norm_args){.x = x,
                        .gain = m->p[0] ? m->p[0]->w : NULL,
                        .bias = m->p[1] ? m->p[1]->w : NULL,
                        .rows = (int64_t)r->batch * m->rows_each,
                        .x_stride = m->n,
                        .y_stride = m->n,
                        .n = m->n,
                        .kind = m->kind,
                        .eps = m->eps,
                        .scale = 1};
}

ts_err ts_row_norm_forward(const ts_row_norm *m, const ts_layer *l,
                           const ts_layer_run *r, float *y, const float *x) {
  ts_norm_args a = args_of(m, r, x);
  a.y = y;
  return ts_run_norm(l, r, &a, TS_FORWARD);
}

ts_err ts_row_norm_backward(const ts_row_norm *m, const ts_layer *l,
                            const ts_layer_run *r, float *dx, const float *dy,
                            const float *x) {
  ts_norm_args a = args_of(m, r, x);
  a.dy = dy;
  a.dx = dx;
  a.dgain = m->p[0] ? m->p[0]->grad : NULL;
  a.dbias = m->p[1] ? m->p[1]->grad : NULL;
  return ts_run_norm(l, r, &a, TS_BACKWARD);
}
