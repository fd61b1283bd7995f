/* graph_plan.c - the layers of a deck in running order, with their shapes. */
#include <string.h>

#include "base/dense_columns.h"
#include "base/features.h"
#include "base/mem.h"
#include "base/str.h"
#include "model/graph.h"

/* ---- layers -------------------------------------------------------------- */

static int32_t n_inputs(const ts_layer *l) {
  int32_t n = 0;
  for (int k = 0; k < TS_ROLE_COUNT; k++) n += l->n_in[k];
  return n;
}

static void layer_free(ts_layer *l) {
  if (!l) return;
  if (l->ops->destroy && l->data) l->ops->destroy(l);
  ts_arrays_reset(&l->arrays);
  for (int32_t k = 0; k < l->n_out; k++) ts_mem_free(l->out[k].name);
  for (int32_t k = 0; l->in && k < n_inputs(l); k++) ts_mem_free(l->in[k].adds);
  ts_mem_free_all(l->in, l->out, l->data, l);
}

void ts_graph_reset(ts_graph *g) {
  for (int32_t i = 0; i < g->n; i++) layer_free(g->layers[i]);
  for (int32_t k = 0; k < g->n_emb; k++)
    ts_mem_free_all(g->emb[k]->emb->feature, g->emb[k]->emb, g->emb[k]->name,
                    g->emb[k]);
  for (int32_t k = 0; k < g->n_added; k++)
    ts_mem_free_all(g->added[k]->name, g->added[k]);
  ts_mem_free_all(g->layers, g->emb, g->added, g->n_reads, g->skipped);
  ts_arrays_reset(&g->arrays);
}

static ts_err append(ts_graph *g, ts_layer *l) {
  TS_DO(ts_mem_extend(&g->layers, g->n, g->n + 1, sizeof *g->layers,
                      TS_TAG_DENSE));
  g->layers[g->n++] = l;
  return TS_OK;
}

static ts_err layer_new(ts_layer **out, ts_graph *g, const ts_layer_ops *ops,
                        const ts_layer_config *c) {
  ts_err err = TS_OK;
  ts_layer *l = NULL;
  TS_TRY(ts_mem_alloc(&l, sizeof *l, TS_TAG_DENSE));
  l->ops = ops;
  l->config = c;
  l->options = c->options;
  l->spec = &g->spec;
  TS_TRY(ts_mem_alloc(&l->data, ops->data_bytes ? ops->data_bytes : 1,
                      TS_TAG_DENSE));
  *out = l;
  l = NULL;
done:
  layer_free(l);
  return err;
}

static ts_err take_input(ts_layer *l, ts_role role, ts_value *v) {
  const int32_t n = n_inputs(l);
  TS_DO(ts_mem_extend(&l->in, n, n + 1, sizeof *l->in, TS_TAG_DENSE));
  l->in[n].value = v;
  l->n_in[role]++;
  l->above |= v->above;
  return TS_OK;
}

/* ---- joins --------------------------------------------------------------- */

extern const ts_layer_ops ts_layer_concat;

/* Such a layer is there already. */
static ts_value *find_join(const ts_graph *g, ts_value *const *v, int32_t n,
                           bool fields) {
  for (int32_t i = 0; i < g->n; i++) {
    const ts_layer *l = g->layers[i];
    bool equal = l->ops == &ts_layer_concat && l->n_in[TS_ROLE_IN] == n &&
                 (!fields || l->out[0].shape.form == TS_FIELDS);
    for (int32_t k = 0; equal && k < n; k++) equal = l->in[k].value == v[k];
    if (equal) return &l->out[0];
  }
  return NULL;
}

static ts_err added_config(ts_graph *g, const ts_layer *reader,
                           ts_layer_config **out) {
  ts_err err = TS_OK;
  ts_str name = {0};
  ts_layer_config *c = NULL;
  TS_TRY(ts_mem_extend(&g->added, g->n_added, g->n_added + 1, sizeof *g->added,
                       TS_TAG_DENSE));
  TS_TRY(ts_mem_alloc(&c, sizeof *c, TS_TAG_DENSE));
  g->added[g->n_added++] = c;
  c->kind = (char *)ts_layer_concat.kind;
  c->line = reader ? reader->config->line : 0;
  TS_TRY(
      ts_str_append(&name, "%s:in", reader ? reader->config->name : "model"));
  TS_TRY(ts_mem_strdup(&c->name, name.text));
  *out = c;
done:
  ts_str_reset(&name);
  return err;
}

static ts_err no_fields(const ts_layer *reader, ts_value *const *v, int32_t n) {
  ts_err err = TS_OK;
  ts_str list = {0};
  char text[TS_SHAPE_BYTES];
  for (int32_t k = 0; k < n && list.n_bytes < 300; k++)
    TS_TRY(ts_str_append(&list, "%s\"%.80s\" is %s", k ? ", " : "", v[k]->name,
                         ts_layer_shape_text(text, v[k]->shape)));
  err = ts_layer_fail(reader,
                      "it takes fields (B, F, d), or several vectors of one "
                      "width, but %s; kind project gives embeddings of several "
                      "dims one",
                      list.text);
done:
  ts_str_reset(&list);
  return err;
}

ts_err ts_graph_join(ts_graph *g, const ts_layer *reader,
                     ts_value *const *values, int32_t n, bool fields,
                     ts_value **out) {
  ts_err err = TS_OK;
  ts_layer_config *c;
  ts_layer *l = NULL;
  ts_value *there = find_join(g, values, n, fields);
  if (there) {
    *out = there; /* OUT may be VALUES itself */
    return TS_OK;
  }
  TS_TRY(added_config(g, reader, &c));
  TS_TRY(layer_new(&l, g, &ts_layer_concat, c));
  for (int32_t k = 0; k < n; k++) TS_TRY(take_input(l, TS_ROLE_IN, values[k]));
  l->stacks = fields;
  TS_TRY(ts_layer_concat.shape(l));
  if (n == 1) { /* messages call it by what it reads */
    ts_mem_free(l->out[0].name);
    l->out[0].name = NULL;
    TS_TRY(ts_mem_strdup(&l->out[0].name, values[0]->name));
  }
  if (fields && l->out[0].shape.form != TS_FIELDS)
    TS_TRY(no_fields(reader, values, n));
  TS_TRY(append(g, l));
  *out = &l->out[0];
  l = NULL;
done:
  layer_free(l);
  return err;
}

/* ---- inputs -------------------------------------------------------------- */

/* Some other layer reads an embedding of V: so its gradient is a sum. */
static bool is_shared(const ts_graph *g, const ts_value *v) {
  for (int32_t k = 0; k < v->emb->n; k++)
    if (g->n_reads[v->emb->feature[k]] > 1) return true;
  return false;
}

static bool reads_it(const ts_graph *g, const ts_layer *l, const ts_value *v) {
  return l->ops == &ts_layer_concat ||
         (l->ops->reads_embeddings && !is_shared(g, v));
}

static ts_err join_role(ts_graph *g, ts_layer *l, ts_value **v, int32_t n) {
  const bool fields = l->ops->wants_fields;
  ts_value *one = v[0];
  if (fields && n == 1 && one->shape.form != TS_FIELDS)
    return no_fields(l, &one, 1);
  if (n > 1 || (one->emb && !reads_it(g, l, one)))
    TS_DO(ts_graph_join(g, l, v, n, fields, &one));
  return take_input(l, TS_ROLE_IN, one);
}

/* Each by itself. */
static ts_err take_each(ts_graph *g, ts_layer *l, ts_role role, ts_value **v,
                        int32_t n) {
  for (int32_t k = 0; k < n; k++) {
    ts_value *one = v[k];
    if (one->emb && !(role == TS_ROLE_IN && reads_it(g, l, one))) {
      TS_DO(ts_graph_join(g, l, &v[k], 1, false, &one));
      one->joined = v[k]->emb;
    }
    TS_DO(take_input(l, role, one));
  }
  return TS_OK;
}

static ts_err take_role(ts_graph *g, ts_layer *l, ts_role role,
                        const ts_strings *names) {
  ts_err err = TS_OK;
  ts_value **v = NULL;
  int32_t n = 0;
  TS_TRY(ts_mem_many(v, names->n + 1, DENSE));
  for (int32_t k = 0; k < names->n; k++) {
    bool skip;
    TS_TRY(ts_graph_find(g, l, names->item[k], &v[n], &skip));
    if (!skip) n++;
  }
  if (role == TS_ROLE_IN && !n && names->n) goto done; /* all left out */
  if (role == TS_ROLE_IN && n < l->ops->least)
    TS_THROW_LAYER(l, "it takes %d input%s in `in`, it has %d", l->ops->least,
                   l->ops->least > 1 ? "s" : "", n);
  if (role == TS_ROLE_IN && l->ops->most > 1 && n > l->ops->most)
    TS_THROW_LAYER(l, "it takes %d inputs in `in`, it has %d", l->ops->most, n);
  if (role == TS_ROLE_IN && l->ops->most == 1 && n)
    TS_TRY(join_role(g, l, v, n));
  else
    TS_TRY(take_each(g, l, role, v, n));
done:
  ts_mem_free(v);
  return err;
}

static ts_err take_inputs(ts_graph *g, ts_layer *l) {
  static const char *const keys[] = {"in", "query", "gate", "items"};
  const ts_layer_config *c = l->config;
  const ts_strings *names[] = {&c->in, &c->query, &c->gate, &c->items};
  for (int k = 0; k < TS_ROLE_COUNT; k++) {
    if (k && !l->ops->may[k] && l->ops->roles[k] != (names[k]->n > 0))
      return ts_layer_fail(l,
                           l->ops->roles[k] ? "it needs the key %s"
                                            : "it does not take the key %s",
                           keys[k]);
    TS_DO(take_role(g, l, (ts_role)k, names[k]));
  }
  if (l->ops->wants_fields && l->ops->most != 1)
    for (int32_t k = 0; k < l->n_in[TS_ROLE_IN]; k++)
      if (l->in[k].value->shape.form != TS_FIELDS)
        return no_fields(l, (ts_value *const[]){(ts_value *)l->in[k].value}, 1);
  return TS_OK;
}

ts_err ts_graph_add(ts_graph *g, const ts_layer_config *c) {
  ts_err err = TS_OK;
  ts_layer *l = NULL;
  const ts_layer_ops *ops = ts_layer_find(c->kind);
  if (!ops)
    return ts_fail(TS_ERR_DECK,
                   "%s:%d: layer %s: there is no kind \"%.80s\"; "
                   "there are: %s",
                   g->spec.config->deck_path, c->line, c->name, c->kind,
                   ts_layer_kinds());
  TS_TRY(layer_new(&l, g, ops, c));
  TS_TRY(take_inputs(g, l));
  if (!l->n_in[TS_ROLE_IN] && c->in.n) {
    TS_TRY(ts_mem_extend(&g->skipped, g->n_skipped, g->n_skipped + 1,
                         sizeof *g->skipped, TS_TAG_DENSE));
    g->skipped[g->n_skipped++] = c->name;
    goto done;
  }
  TS_TRY(ops->shape(l));
  TS_TRY(append(g, l));
  l = NULL;
done:
  layer_free(l);
  return err;
}

/* ---- outputs, order, readers --------------------------------------------- */

/* Without what joins add to a row: the loss wants n_tasks numbers of it. */
static ts_err join_logits(ts_graph *g, ts_value *const *v, int32_t n) {
  TS_DO(ts_graph_join(g, g->layers[g->n - 1], v, n, false, &g->logits));
  g->logits->stride = ts_shape_width(g->logits->shape);
  return TS_OK;
}

static ts_err find_logits(ts_graph *g) {
  ts_err err = TS_OK;
  const ts_config *c = g->spec.config;
  ts_layer *last = g->layers[g->n - 1];
  ts_value **v = NULL;
  char text[TS_SHAPE_BYTES];
  TS_TRY(ts_mem_many(v, c->model.n_tasks, DENSE));
  for (int32_t k = 0; k < c->model.n_tasks; k++) {
    const char *in = c->model.tasks[k].in;
    bool skip;
    v[k] = &last->out[0];
    if (in && *in) TS_TRY(ts_graph_find(g, last, in, &v[k], &skip));
  }
  if (!c->model.has_outputs) { /* one layer for all tasks */
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
  for (int32_t k = 0; k < c->model.n_tasks; k++)
    if (ts_shape_width(v[k]->shape) != 1)
      TS_THROW(TS_ERR_DECK,
               "%s: output %s reads \"%s\", which is %s: a loss takes (B, 1), "
               "as kind linear with units = 1 gives it",
               c->deck_path, c->model.tasks[k].name, v[k]->name,
               ts_layer_shape_text(text, v[k]->shape));
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
    for (int32_t k = 0; k < n_inputs(l); k++) n += l->in[k].value == v;
  }
  return n;
}

/* The logits' gradient is the caller's: another reader would want a place for
 * its own.  And both have rows of n_tasks. */
static ts_err part_logits(ts_graph *g) {
  ts_value *v = g->logits;
  if (!n_readers(g, v) && v->stride == ts_shape_width(v->shape)) return TS_OK;
  return join_logits(g, &v, 1);
}

static ts_err check_read(const ts_graph *g) {
  const ts_config *c = g->spec.config;
  for (int32_t i = 0; i < g->n; i++)
    for (int32_t k = 0; k < g->layers[i]->n_out; k++) {
      const ts_value *v = &g->layers[i]->out[k];
      if (v == g->logits || n_readers(g, v)) continue;
      return ts_layer_fail(g->layers[i],
                           "nothing reads \"%s\": name it in the "
                           "`in` of a layer below it or of an "
                           "output, or leave the layer out",
                           v->name);
    }
  for (int32_t t = 0, f = 0; t < c->n_tables; t++)
    for (int32_t i = 0; i < c->tables[t].features.n; i++, f++) {
      bool found = false;
      for (int32_t k = 0; k < g->n_emb; k++)
        for (int32_t j = 0; j < g->emb[k]->emb->n; j++)
          found |= g->emb[k]->emb->feature[j] == f;
      if (!found)
        return ts_fail(TS_ERR_DECK,
                       "%s: no layer reads feature %s of table %s: leave it "
                       "out of the table, or name it, or \"embeddings\" or "
                       "\"fields\", in the `in` of a layer",
                       c->deck_path, c->tables[t].features.item[i],
                       c->tables[t].name);
    }
  return TS_OK;
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
    for (int32_t k = 0; k < n_inputs(g->layers[i]); k++) {
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

ts_err ts_graph_plan(ts_graph *g, const ts_model_spec *s) {
  const ts_config *c = s->config;
  g->spec = *s;
  g->dense = (ts_value){.name = (char *)"dense",
                        .shape = ts_vector_of(ts_dense_width(c)),
                        .stride = ts_dense_width(c),
                        .is_input = true};
  TS_DO(ts_graph_count_reads(g));
  for (int32_t i = 0; i < c->model.n_layers; i++)
    TS_DO(ts_graph_add(g, &c->model.layers[i]));
  TS_DO(find_logits(g));
  TS_DO(part_logits(g));
  TS_DO(check_read(g));
  TS_DO(order(g));
  return mark_adds(g);
}
