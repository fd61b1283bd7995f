/* graph_half.c - values of bf16.
 *
 * Products of bf16 round their inputs anyway: where the layer above can write
 * bf16, and the only one that reads it multiplies, half the bytes go through
 * memory, and so do those of the gradient. */
#include <string.h>

#include "model/graph.h"

void ts_graph_halve(ts_graph *g) {
  for (int32_t i = 0; i < g->n; i++) {
    const ts_layer *l = g->layers[i];
    ts_value *v = &l->out[0];
    if (!l->ops->gives_half || v == g->logits) continue;
    if (g->spec.keeps && !strcmp(g->spec.keeps, v->name)) continue;
    int32_t at = 0;
    const ts_layer *reader = ts_graph_reader(g, v, &at);
    v->half = reader && !at && reader->ops->takes_half &&
              reader->ops->takes_half(reader) && l->ops->gives_half(l, reader);
  }
}
