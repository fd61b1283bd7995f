/* graph_outputs.c - the logits of a graph, what nobody reads, the order in
 * which layers run. */
#include "base/features.h"
#include "base/mem.h"
#include "base/tasks.h"
#include "model/graph.h"

/* Without what joins add to a row: the loss wants the tasks' numbers of it. */
static ts_err join_logits(ts_graph *g, ts_value *const *v, int32_t n) {
  TS_DO(ts_graph_join(g, g->layers[g->n - 1], v, n, false, &g->logits));
  g->logits->stride = ts_shape_width(g->logits->shape);
  return TS_OK;
}

/* Task K of model.outputs reads V: a number, or as many as there are classes.
 */
static ts_err check_width(const ts_graph *g, int32_t k, const ts_value *v) {
  const ts_config *c = g->spec.config;
  ts_task_config *x = &c->model.tasks[k];
  const int64_t width = ts_shape_width(v->shape);
  const bool classes = ts_task_is_of_classes(x);
  char text[TS_SHAPE_BYTES];
  if (ts_task_is_of_items(x)) return TS_OK;
  if (v->tokens)
    return ts_fail(TS_ERR_DECK,
                   "%s: output %s reads \"%s\", which is %s: a loss takes one "
                   "row for each sample, which kind pool makes of its tokens",
                   c->deck_path, x->name, v->name,
                   ts_layer_shape_text(text, v->shape));
  if (classes ? width < 2 : width != 1)
    return ts_fail(TS_ERR_DECK,
                   "%s: output %s reads \"%s\", which is %s: a loss takes (B, "
                   "%s), as kind linear with units = %s gives it",
                   c->deck_path, x->name, v->name,
                   ts_layer_shape_text(text, v->shape),
                   classes ? "classes" : "1", classes ? "2 or more" : "1");
  x->classes = classes ? (int32_t)width : 0;
  return TS_OK;
}

static ts_err find_logits(ts_graph *g) {
  ts_err err = TS_OK;
  const ts_config *c = g->spec.config;
  if (!g->n)
    return ts_fail(TS_ERR_DECK,
                   "%s: model.layers: all are left out without dense features",
                   c->deck_path);
  ts_layer *last = g->layers[g->n - 1];
  ts_value **v = NULL;
  char text[TS_SHAPE_BYTES];
  TS_TRY(ts_mem_many(v, c->model.n_tasks, DENSE));
  if (!c->model.has_outputs && last->out[0].tokens)
    TS_THROW_LAYER(last,
                   "it is the last one and gives a row for each token: a loss "
                   "takes one for each sample, which kind pool makes of them");
  for (int32_t k = 0; k < c->model.n_tasks; k++) {
    const char *in = ts_graph_task_in(g, k);
    bool skip = false;
    v[k] = &last->out[0];
    if (in && *in && g->made.n)
      TS_THROW(TS_ERR_DECK,
               "%s: output %s says in = \"%s\": with model.kind = \"%s\" leave "
               "`in` out, the model has one logit for each",
               c->deck_path, c->model.tasks[k].name, in, c->model.kind);
    if (in && *in) TS_TRY(ts_graph_find(g, last, in, &v[k], &skip));
    if (skip)
      TS_THROW(TS_ERR_DECK,
               "%s: output %s reads \"%s\", which is left out without dense "
               "features",
               c->deck_path, c->model.tasks[k].name, in);
  }
  if (!c->model.has_outputs || g->made.n) { /* one layer for all tasks */
    if (ts_shape_width(v[0]->shape) != c->model.n_tasks)
      TS_THROW_LAYER(last,
                     "it is the last one and gives %s, but there are %d "
                     "tasks: it has to give (B, %d), or say "
                     "model.outputs",
                     ts_layer_shape_text(text, v[0]->shape), c->model.n_tasks,
                     c->model.n_tasks);
    g->logits = v[0];
    goto done;
  }
  for (int32_t k = 0; k < c->model.n_tasks; k++) {
    TS_TRY(check_width(g, k, v[k]));
    if (ts_task_is_of_items(&c->model.tasks[k]))
      TS_TRY(ts_graph_add_items(g, k, &v[k]));
  }
  if (c->model.n_tasks == 1 && !v[0]->is_input && !v[0]->emb)
    g->logits = v[0];
  else
    TS_TRY(join_logits(g, v, c->model.n_tasks));
done:
  ts_mem_free(v);
  return err;
}

static int32_t n_readers(const ts_graph *g, const ts_value *v) {
  int32_t n = 0;
  for (int32_t i = 0; i < g->n; i++) {
    const ts_layer *l = g->layers[i];
    for (int32_t k = 0; k < ts_layer_n_in(l); k++) n += l->in[k].value == v;
  }
  return n;
}

/* The logits' gradient is the caller's: another reader would want a place for
 * its own.  And both have rows of these numbers alone. */
static ts_err part_logits(ts_graph *g) {
  ts_value *v = g->logits;
  if (!n_readers(g, v) && v->stride == ts_shape_width(v->shape)) return TS_OK;
  return join_logits(g, &v, 1);
}

/* Evaluations read it. */
static bool is_of_task(const ts_graph *g, const ts_value *v) {
  for (int32_t k = 0; k < g->spec.config->model.n_tasks; k++)
    for (int which = TS_TASK_LOSS; which <= TS_TASK_QUERY; which++)
      if (ts_graph_task_value(&g->base, k, which) == v) return true;
  return false;
}

static ts_err check_read(const ts_graph *g) {
  for (int32_t i = 0; i < g->n; i++)
    for (int32_t k = 0; k < g->layers[i]->n_out; k++) {
      const ts_value *v = &g->layers[i]->out[k];
      if (v == g->logits || n_readers(g, v) || is_of_task(g, v)) continue;
      return ts_layer_fail(g->layers[i],
                           "nothing reads \"%s\": name it in the "
                           "`in` of a layer below it or of an "
                           "output, or leave the layer out",
                           v->name);
    }
  return TS_OK;
}

/* A target has its own embedding, unless its items are made by layers. */
static ts_err check_target(const ts_config *c, const bool *read) {
  const ts_task_config *x = &c->model.tasks[0];
  if (!ts_task_is_of_items(x) || read[ts_task_candidates(c, x)]) return TS_OK;
  return ts_fail(
      TS_ERR_DECK,
      "%s: no layer reads feature %s, the target of output %s: one "
      "that makes items, \"%s\" or one above it, has to read it, too",
      c->deck_path, x->target, x->name, x->items);
}

/* A gradient that no layer writes would be whatever was there. */
static ts_err check_features(const ts_graph *g) {
  ts_err err = TS_OK;
  const ts_config *c = g->spec.config;
  bool *read = NULL;
  const int32_t times = ts_feature_of_times(c);
  TS_TRY(ts_mem_many(read, ts_feature_count(c) + 1, DENSE));
  for (int32_t k = 0; k < g->n_emb; k++)
    for (int32_t j = 0; j < g->emb[k]->emb->n; j++)
      read[g->emb[k]->emb->feature[j]] = true;
  TS_TRY(check_target(c, read));
  for (int32_t t = 0, f = 0; t < c->n_tables; t++)
    for (int32_t i = 0; i < c->tables[t].features.n; i++, f++)
      if (!read[f] && f != times && !ts_task_only_excludes(c, f))
        TS_THROW(TS_ERR_DECK,
                 "%s: no layer reads feature %s of table %s: leave it out of "
                 "the table, or name it, or \"embeddings\" or \"fields\", in "
                 "the `in` of a layer",
                 c->deck_path, c->tables[t].features.item[i],
                 c->tables[t].name);
done:
  ts_mem_free(read);
  return err;
}

/* Those that embeddings do not reach first. */
static ts_err order(ts_graph *g) {
  ts_layer **sorted = NULL;
  int32_t n = 0;
  TS_DO(ts_mem_many(sorted, g->n, DENSE));
  for (int pass = 0; pass < 2; pass++) {
    for (int32_t i = 0; i < g->n; i++)
      if (g->layers[i]->above == (pass == 1)) sorted[n++] = g->layers[i];
    if (!pass) g->n_below = n;
  }
  ts_mem_free(g->layers);
  g->layers = sorted;
  return TS_OK;
}

/* In the backward pass the first of those who read an embedding writes its
 * gradient, the others add to it. */
static ts_err mark_adds(ts_graph *g) {
  ts_err err = TS_OK;
  bool *written = NULL;
  TS_TRY(ts_mem_many(written, ts_feature_count(g->spec.config) + 1, DENSE));
  for (int32_t i = g->n - 1; i >= 0; i--)
    for (int32_t k = 0; k < ts_layer_n_in(g->layers[i]); k++) {
      ts_input *in = &g->layers[i]->in[k];
      const ts_emb_set *set = in->value->emb;
      if (!set) continue;
      TS_TRY(ts_mem_many(in->adds, set->n, DENSE));
      for (int32_t j = 0; j < set->n; j++) {
        in->adds[j] = written[set->feature[j]];
        written[set->feature[j]] = true;
      }
    }
done:
  ts_mem_free(written);
  return err;
}

ts_err ts_graph_outputs(ts_graph *g) {
  TS_DO(find_logits(g));
  TS_DO(part_logits(g));
  TS_DO(check_read(g));
  TS_DO(check_features(g));
  TS_DO(order(g));
  ts_graph_mark_items(g);
  return mark_adds(g);
}
