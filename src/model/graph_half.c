/* graph_half.c - values of bf16.
 *
 * Products of bf16 round their inputs anyway: where the layer above can write
 * bf16, and the only one that reads it multiplies, half the bytes go through
 * memory, and so do those of the gradient. */
#include <string.h>

#include "model/graph.h"

/* The one layer that reads V as its first input; NULL: none, or others, too. */
static const ts_layer *reader_of(const ts_graph *g, const ts_value *v) {
  const ts_layer *reader = NULL;
  for (int32_t i = 0; i < g->n; i++)
    for (int32_t k = 0; k < ts_layer_n_in(g->layers[i]); k++) {
      if (g->layers[i]->in[k].value != v) continue;
      if (reader || k) return NULL;
      reader = g->layers[i];
    }
  return reader;
}

void ts_graph_halve(ts_graph *g) {
  for (int32_t i = 0; i < g->n; i++) {
    const ts_layer *l = g->layers[i];
    ts_value *v = &l->out[0];
    if (!l->ops->gives_half || v == g->logits) continue;
    if (g->spec.keeps && !strcmp(g->spec.keeps, v->name)) continue;
    const ts_layer *reader = reader_of(g, v);
    v->half = reader && reader->ops->takes_half &&
              reader->ops->takes_half(reader) && l->ops->gives_half(l, reader);
  }
}
