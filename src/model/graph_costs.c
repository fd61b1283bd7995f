/* graph_costs.c - what samples cost by how many tokens they have. */
#include "base/mem.h"
#include "base/tasks.h"
#include "model/graph.h"
#include "model/layer_ops.h"

extern const ts_layer_ops ts_layer_items;

/* Multiplications by tiles take longer than a library's of large matrices. */
enum { PAIR_TIMES = 2 };

/* Multiplications of layer L for each of its rows. */
static double of_row(const ts_layer *l) {
  if (l->ops != &ts_layer_items)
    return l->n_weights + (l->ops->products ? l->ops->products(l) : 0);
  /* Loss over all items are ranks' work by rows of the table. */
  const ts_task_config *x = l->options;
  if (ts_task_is_of_all(x, true)) return 0;
  return (double)ts_task_each(x, true) * ts_shape_width(l->in[0].value->shape);
}

/* Layers of tokens T, which are a sample's of a feature, and some MORE. */
static void add_tokens(const ts_graph *g, const ts_tokens *t,
                       ts_sample_costs *costs, ts_token_cost *to) {
  double row = 0, pair = 0;
  for (int32_t i = 0; i < g->n; i++) {
    const ts_layer *l = g->layers[i];
    if (!l->tokens || ts_tokens_at(l->tokens) != t) continue;
    row += of_row(l);
    if (l->ops->pairs) pair += PAIR_TIMES * l->ops->pairs(l);
  }
  to->token += (int64_t)(row + 2 * t->more * pair);
  to->pair += (int64_t)pair;
  costs->sample += (int64_t)(t->more * row + t->more * (t->more * pair));
}

ts_err ts_model_costs(const ts_model *m, ts_sample_costs *costs) {
  const ts_graph *g = (const ts_graph *)m;
  const ts_config *c = g->spec.config;
  *costs = (ts_sample_costs){0};
  TS_DO(ts_mem_array(&costs->of, g->n_tokens, sizeof *costs->of, TS_TAG_DENSE));
  for (int32_t k = 0; k < g->n_tokens; k++) {
    ts_tokens *t = g->tokens[k];
    if (t->same) continue;
    const ts_tokens *own = ts_tokens_of_features(t);
    ts_token_cost *to = &costs->of[costs->n++];
    to->feature = own->feature[0];
    to->token = own->n_features; /* what looking them up takes, in the least */
    /* Micro-batches are cut by samples: where there is room for as many tokens
     * as these may have it is one of each. */
    to->most = own->spec.batch_max;
    if (!c->data.max_tokens) to->most *= c->run.accumulate;
    add_tokens(g, t, costs, to);
  }
  for (int32_t i = 0; i < g->n; i++)
    if (!g->layers[i]->tokens) costs->sample += (int64_t)of_row(g->layers[i]);
  return TS_OK;
}
