/* graph_items.c - outputs over items: the layer that scores what the deck's
 * layers give with the embeddings of candidates. */
#include "base/features.h"
#include "base/mem.h"
#include "base/tasks.h"
#include "model/graph.h"

extern const ts_layer_ops ts_layer_items;

/* The candidates' embeddings, which nothing but that layer reads. */
static ts_err candidates(ts_graph *g, const ts_task_config *x, int32_t f,
                         ts_value **out) {
  ts_err err = TS_OK;
  ts_value *v = NULL;
  const ts_config *c = g->spec.config;
  for (int32_t k = 0; k < g->n_emb; k++)
    for (int32_t i = 0; i < g->emb[k]->emb->n; i++)
      if (g->emb[k]->emb->feature[i] == f)
        return ts_fail(TS_ERR_DECK,
                       "%s: a layer reads \"%s\", which is the target of "
                       "output %s: that alone has its embeddings",
                       c->deck_path, x->target, x->name);
  TS_TRY(ts_mem_extend(&g->emb, g->n_emb, g->n_emb + 1, sizeof *g->emb,
                       TS_TAG_DENSE));
  TS_TRY(ts_mem_alloc(&v, sizeof *v, TS_TAG_DENSE));
  TS_TRY(ts_mem_alloc(&v->emb, sizeof *v->emb, TS_TAG_DENSE));
  g->emb[g->n_emb++] = v;
  *out = v;
  TS_TRY(ts_mem_many(v->emb->feature, 1, DENSE));
  v->emb->feature[v->emb->n++] = f;
  v->shape = ts_vector_of(ts_feature_table(c, f, NULL)->dim);
  v->stride = v->shape.dim;
  v->above = true;
  TS_TRY(ts_mem_strdup(&v->name, x->target));
  v = NULL;
done:
  if (v && !v->emb) ts_mem_free(v);
  return err;
}

ts_err ts_graph_add_items(ts_graph *g, int32_t k, ts_value **v) {
  const ts_task_config *x = &g->spec.config->model.tasks[k];
  const int32_t f = ts_task_candidates(g->spec.config, x);
  ts_value *pair[2] = {*v};
  TS_DO(candidates(g, x, f, &pair[1]));
  return ts_graph_add_own(g, &ts_layer_items, x->name, x, pair, v);
}

const ts_value *ts_graph_task_value(const ts_model *m, int32_t task,
                                    int which) {
  const ts_graph *g = (const ts_graph *)m;
  const ts_task_config *x = &g->spec.config->model.tasks[task];
  for (int32_t i = 0; i < g->n; i++)
    if (g->layers[i]->ops == &ts_layer_items && g->layers[i]->options == x)
      return &g->layers[i]->out[which];
  return NULL;
}

/* A sample has a row for each of its targets. */
static ts_err check_sample(const ts_graph *g, const ts_layer *l,
                           const ts_kjt *kjt, int32_t b, int32_t each,
                           ts_slices slices) {
  const ts_tokens *t = ts_tokens_at(l->in[0].value->tokens);
  const ts_config *c = g->spec.config;
  const ts_task_config *x = l->options;
  const int32_t f = ts_task_candidates(c, x);
  const int64_t m =
      (ts_jagged_length(&kjt->features[f], b) - ts_slices_length(slices, b)) /
      each;
  const int64_t n = ts_jagged_length(&kjt->features[t->feature[0]], b);
  const char *name;
  if (m <= n) return TS_OK;
  (void)ts_feature_table(c, t->feature[0], &name);
  return ts_fail(TS_ERR_DATA,
                 "a sample has %lld ids of feature %s, the target of output "
                 "%s, and %lld of %s, whose last ones they are to follow: it "
                 "can have as many at most",
                 (long long)m, x->target, x->name, (long long)n, name);
}

ts_err ts_graph_check_targets(const ts_graph *g, const ts_kjt *kjt,
                              bool training, ts_slices slices) {
  for (int32_t i = 0; i < g->n; i++) {
    const ts_layer *l = g->layers[i];
    if (l->ops != &ts_layer_items) continue;
    const ts_task_config *x = l->options;
    const bool by_row = l->in[0].value->tokens && !*x->masked;
    const int32_t each = ts_task_each(l->options, training);
    for (int32_t b = 0; by_row && b < kjt->batch; b++)
      TS_DO(check_sample(g, l, kjt, b, each, slices));
  }
  return TS_OK;
}
