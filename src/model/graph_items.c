/* graph_items.c - outputs over items: the layer that scores what the deck's
 * layers give with items: embeddings of candidates, or what other layers make
 * of the items' features (a tower of items). */
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

static ts_err tower(ts_graph *g, const ts_task_config *x, ts_value **out) {
  bool skip = false;
  TS_DO(ts_graph_find(g, g->layers[g->n - 1], x->items, out, &skip));
  if (!skip) return TS_OK;
  return ts_fail(TS_ERR_DECK,
                 "%s: items of output %s is \"%s\", which is left out without "
                 "dense features",
                 g->spec.config->deck_path, x->name, x->items);
}

/* Masks are among the tokens that it reads, of one feature: where one comes
 * behind the ids other features would have none. */
static ts_err check_masked(const ts_config *c, const ts_task_config *x,
                           const ts_value *q) {
  const ts_tokens *t = ts_tokens_at(q->tokens);
  const int32_t f = ts_feature_find(c, x->masked);
  if (!*x->masked || (t && t->n_features == 1 && t->feature[0] == f))
    return TS_OK;
  return ts_fail(TS_ERR_DECK,
                 "%s: output %s reads \"%s\", and masked = \"%s\": it takes a "
                 "row for each id of that feature, and of no other beside it",
                 c->deck_path, x->name, q->name, x->masked);
}

/* Items that layers make go with targets one to one. */
static ts_err check_made(const ts_config *c, const ts_task_config *x, int32_t f,
                         const ts_value *items) {
  const ts_tokens *t = ts_tokens_at(items->tokens);
  char text[TS_SHAPE_BYTES];
  for (int32_t i = 0; t && i < t->n_features; i++)
    if (t->feature[i] == f) return TS_OK;
  if (items->emb || (!t && items->shape.form == TS_VECTOR)) return TS_OK;
  return ts_fail(TS_ERR_DECK,
                 "%s: items of output %s is \"%s\", which is %s: it has to be "
                 "one vector for each sample, or one for each id of \"%s\", "
                 "whose tokens it reads",
                 c->deck_path, x->name, x->items,
                 ts_layer_shape_text(text, items->shape), x->target);
}

ts_err ts_graph_add_items(ts_graph *g, int32_t k, ts_value **v) {
  const ts_task_config *x = &g->spec.config->model.tasks[k];
  const int32_t f = ts_task_candidates(g->spec.config, x);
  ts_value *pair[2] = {*v};
  TS_DO(ts_task_has_tower(g->spec.config, x) ? tower(g, x, &pair[1])
                                             : candidates(g, x, f, &pair[1]));
  TS_DO(check_masked(g->spec.config, x, pair[0]));
  TS_DO(check_made(g->spec.config, x, f, pair[1]));
  return ts_graph_add_own(g, &ts_layer_items, x->name, x, pair, v);
}

/* ---- towers of items ----------------------------------------------------- */

/* V is read by one of their layers; so is what its own layer reads. */
static void mark_value(ts_graph *g, const ts_value *v) {
  if (v->tokens) ts_tokens_at(v->tokens)->of_items = true;
  for (int32_t i = 0; i < g->n; i++)
    for (int32_t k = 0; k < g->layers[i]->n_out; k++)
      if (v == &g->layers[i]->out[k]) g->layers[i]->of_items = true;
}

void ts_graph_mark_items(ts_graph *g) {
  for (int32_t i = g->n - 1; i >= 0; i--) {
    const ts_layer *l = g->layers[i];
    if (l->ops == &ts_layer_items) mark_value(g, l->in[1].value);
    for (int32_t k = 0; l->of_items && k < ts_layer_n_in(l); k++)
      mark_value(g, l->in[k].value);
  }
}

static bool has_feature(const ts_input *in, int32_t f) {
  const ts_emb_set *set = in->joined ? in->joined : in->value->emb;
  const ts_tokens *t = ts_tokens_at(in->value->tokens);
  if (f < 0 && in->value->is_input) return true;
  for (int32_t i = 0; set && i < set->n; i++)
    if (set->feature[i] == f) return true;
  for (int32_t i = 0; t && i < t->n_features; i++)
    if (t->feature[i] == f) return true;
  return false;
}

bool ts_graph_items_read(const ts_model *m, int32_t f) {
  const ts_graph *g = (const ts_graph *)m;
  for (int32_t i = 0; i < g->n; i++)
    for (int32_t k = 0; k < ts_layer_n_in(g->layers[i]); k++)
      if (g->layers[i]->of_items && has_feature(&g->layers[i]->in[k], f))
        return true;
  return false;
}

const ts_value *ts_graph_task_value(const ts_model *m, int32_t task,
                                    int which) {
  const ts_graph *g = (const ts_graph *)m;
  const ts_task_config *x = &g->spec.config->model.tasks[task];
  for (int32_t i = 0; i < g->n; i++) {
    const ts_layer *l = g->layers[i];
    if (l->ops != &ts_layer_items || l->options != x) continue;
    if (which < TS_TASK_ITEMS) return &l->out[which];
    return l->in[1].value->emb ? NULL : l->in[1].value;
  }
  return NULL;
}

/* A sample has a row for each of its targets. */
static ts_err check_sample(const ts_graph *g, const ts_layer *l,
                           const ts_kjt *kjt, int32_t b, int32_t each,
                           ts_slices slices) {
  ts_tokens *t = ts_tokens_at(l->in[0].value->tokens);
  const ts_config *c = g->spec.config;
  const ts_task_config *x = l->options;
  const int32_t f = ts_task_candidates(c, x);
  const int64_t m =
      (ts_jagged_length(&kjt->features[f], b) - ts_slices_length(slices, b)) /
      each;
  const int32_t own = ts_tokens_of_features(t)->feature[0];
  const int64_t n = ts_jagged_length(&kjt->features[own], b) + t->more;
  const char *name;
  if (m <= n) return TS_OK;
  (void)ts_feature_table(c, own, &name);
  return ts_fail(TS_ERR_DATA,
                 "a sample has %lld ids of feature %s, the target of output "
                 "%s, and %lld of %s, whose last ones they are to follow: it "
                 "can have as many at most",
                 (long long)m, x->target, x->name, (long long)n, name);
}

/* An item that layers make a vector of is a sample's, so that it has one at
 * most. */
static ts_err check_one(const ts_graph *g, const ts_layer *l, const ts_kjt *kjt,
                        int32_t b) {
  const ts_task_config *x = l->options;
  const int32_t f = ts_task_candidates(g->spec.config, x);
  const int64_t m = ts_jagged_length(&kjt->features[f], b);
  if (m <= 1) return TS_OK;
  return ts_fail(TS_ERR_DATA,
                 "a sample has %lld ids of feature %s, the target of output "
                 "%s, whose item is one vector, \"%s\": it can have one",
                 (long long)m, x->target, x->name, x->items);
}

ts_err ts_graph_check_targets(const ts_graph *g, const ts_kjt *kjt,
                              bool training, ts_slices slices) {
  for (int32_t i = 0; i < g->n; i++) {
    const ts_layer *l = g->layers[i];
    if (l->ops != &ts_layer_items) continue;
    const ts_task_config *x = l->options;
    const ts_value *items = l->in[1].value;
    const bool only = g->base.items_only || (!items->emb && !items->tokens);
    for (int32_t b = 0; only && b < kjt->batch; b++)
      TS_DO(check_one(g, l, kjt, b));
    const bool by_row =
        l->in[0].value->tokens && !*x->masked && !g->base.items_only;
    const int32_t each = ts_task_each(l->options, training);
    for (int32_t b = 0; by_row && b < kjt->batch; b++)
      TS_DO(check_sample(g, l, kjt, b, each, slices));
  }
  return TS_OK;
}
