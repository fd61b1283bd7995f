/* graph_rows.c - values that lie in the row that joins them.
 *
 * Where one layer alone reads a value and does so to put it beside others, the
 * layer above can write it there: x and dx are columns of the joined row, and
 * nothing is copied in either pass. */
#include <string.h>

#include "model/graph.h"

const ts_layer *ts_graph_reader(const ts_graph *g, const ts_value *v,
                                int32_t *at) {
  const ts_layer *reader = NULL;
  for (int32_t i = 0; i < g->n; i++)
    for (int32_t k = 0; k < ts_layer_n_in(g->layers[i]); k++) {
      if (g->layers[i]->in[k].value != v) continue;
      if (reader) return NULL;
      reader = g->layers[i];
      *at = k;
    }
  return reader;
}

/* The gradient of the logits is the caller's, so no part of it lies there; what
 * predict asks for is fetched in one piece.  Of one column the stride is 1,
 * along which kernels sum in another order. */
static bool may_lie(const ts_graph *g, const ts_layer *l,
                    const ts_layer *reader) {
  return l->ops->any_stride && ts_shape_width(l->out[0].shape) > 1 && reader &&
         reader->ops->joins && !reader->out[0].half &&
         &reader->out[0] != g->logits &&
         !(g->spec.keeps && !strcmp(g->spec.keeps, l->out[0].name));
}

static void lie(ts_graph *g, int32_t i) {
  ts_value *v = &g->layers[i]->out[0];
  int32_t n = 0;
  const ts_layer *reader = ts_graph_reader(g, v, &n);
  if (!may_lie(g, g->layers[i], reader)) return;
  for (int32_t k = 0; k < n; k++)
    v->at += ts_shape_width(reader->in[k].value->shape);
  v->row = &reader->out[0];
  v->stride = v->row->stride;
}

static void stand(ts_value *v) {
  v->row = NULL;
  v->at = 0;
  v->stride = ts_shape_width(v->shape);
}

/* A row lives longer for a part that is written early: a part whose own array
 * takes less memory than that has one. */
ts_err ts_graph_rows(ts_graph *g) {
  int64_t none, now, without;
  TS_DO(ts_graph_size(g, &none));
  for (int32_t i = 0; i < g->n; i++) lie(g, i);
  TS_DO(ts_graph_size(g, &now));
  for (int32_t i = 0; i < g->n; i++) {
    const ts_value lying = g->layers[i]->out[0];
    if (!lying.row) continue;
    stand(&g->layers[i]->out[0]);
    TS_DO(ts_graph_size(g, &without));
    if (without < now)
      now = without;
    else
      g->layers[i]->out[0] = lying;
  }
  for (int32_t i = 0; now > none && i < g->n; i++)
    if (g->layers[i]->out[0].row) stand(&g->layers[i]->out[0]);
  return TS_OK;
}
