/* graph_print.c - the table of a graph's layers that train --check prints. */
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "model/graph.h"

/* What a plan says of a layer, per sample. */
typedef struct ts_row {
  double weights, products, bytes;
} ts_row;

/* "deep, @ctr": what it reads, as far as there is room. */
static ts_err inputs_of(ts_str *s, const ts_layer *l) {
  const int32_t n = ts_layer_n_in(l);
  for (int32_t i = 0; i < n; i++) {
    if (s->n_bytes > 32) return ts_str_append(s, ", ..");
    TS_DO(ts_str_append(s, "%s%s", i ? ", " : "", l->in[i].value->name));
  }
  return TS_OK;
}

static double bytes_of(const ts_value *v) {
  if (v->row) return 0; /* they are that one's */
  return (v->half ? 2.0 : 4.0) * v->stride;
}

static ts_err print_layer(ts_str *s, const ts_layer *l, ts_row *sum) {
  ts_err err = TS_OK;
  ts_str in = {0};
  char shape[TS_SHAPE_BYTES];
  ts_row row = {.weights = l->n_weights};
  TS_TRY(inputs_of(&in, l));
  row.products = row.weights + (l->ops->products ? l->ops->products(l) : 0);
  for (int32_t k = 0; k < l->n_out; k++) row.bytes += bytes_of(&l->out[k]);
  for (int32_t k = 0; k < l->n_out; k++)
    TS_TRY(ts_str_append(s, "  %-20s %-12s %-16s %12.0f %12.0f %9.0f  %s\n",
                         k              ? strchr(l->out[k].name, '@')
                         : l->n_out > 1 ? l->out[k].name
                                        : l->config->name,
                         k ? "" : l->ops->kind,
                         ts_layer_shape_text(shape, l->out[k].shape),
                         k ? 0 : row.weights, k ? 0 : row.products,
                         bytes_of(&l->out[k]), k ? "" : in.text));
  sum->weights += row.weights;
  sum->products += row.products;
  sum->bytes += row.bytes;
done:
  ts_str_reset(&in);
  return err;
}

ts_err ts_graph_print(ts_str *s, const ts_model *m) {
  const ts_graph *g = (const ts_graph *)m;
  ts_row sum = {0};
  TS_DO(ts_str_append(s, "  %-20s %-12s %-16s %12s %12s %9s  %s\n", "layer",
                      "kind", "shape", "parameters", "products", "bytes",
                      "reads"));
  for (int32_t i = 0; i < g->n; i++) TS_DO(print_layer(s, g->layers[i], &sum));
  return ts_str_append(s, "  %-20s %-12s %-16s %12.0f %12.0f %9.0f\n", "all",
                       "", "", sum.weights, sum.products, sum.bytes);
}
