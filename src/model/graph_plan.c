/* graph_plan.c - the layers of a deck in running order, with their shapes. */
#include <string.h>

#include "base/dense_columns.h"
#include "base/features.h"
#include "base/kinds.h"
#include "base/mem.h"
#include "base/str.h"
#include "model/graph.h"

/* ---- layers -------------------------------------------------------------- */

static void layer_free(ts_layer *l) {
  if (!l) return;
  if (l->ops->destroy && l->data) l->ops->destroy(l);
  ts_arrays_reset(&l->arrays);
  for (int32_t k = 0; k < l->n_out; k++) ts_mem_free(l->out[k].name);
  for (int32_t k = 0; l->in && k < ts_layer_n_in(l); k++)
    ts_mem_free(l->in[k].adds);
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
  ts_graph_free_tokens(g);
  ts_layer_list_reset(&g->made);
  ts_layer_list_reset(&g->parts);
  for (int32_t k = 0; k < g->n_kept; k++) ts_mem_free(g->kept[k]);
  ts_mem_free_all(g->kept, g->task_in);
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
  const int32_t n = ts_layer_n_in(l);
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
    bool any = fields; /* whoever asks, it is fields */
    bool equal = l->ops == &ts_layer_concat && l->n_in[TS_ROLE_IN] == n &&
                 (!fields || l->out[0].shape.form == TS_FIELDS);
    for (int32_t k = 0; equal && k < n; k++) {
      equal = l->in[k].value == v[k];
      any |= v[k]->shape.form == TS_FIELDS;
    }
    if (equal && (any || !l->stacks)) return &l->out[0];
  }
  return NULL;
}

/* NAME:TAIL, which no deck can say. */
static ts_err added_config(ts_graph *g, const char *kind, const char *owner,
                           const char *tail, ts_layer_config **out) {
  ts_err err = TS_OK;
  ts_str name = {0};
  ts_layer_config *c = NULL;
  TS_TRY(ts_mem_extend(&g->added, g->n_added, g->n_added + 1, sizeof *g->added,
                       TS_TAG_DENSE));
  TS_TRY(ts_mem_alloc(&c, sizeof *c, TS_TAG_DENSE));
  g->added[g->n_added++] = c;
  c->kind = (char *)kind;
  TS_TRY(ts_str_append(&name, "%s:%s", owner, tail));
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
  TS_TRY(added_config(g, ts_layer_concat.kind,
                      reader ? reader->config->name : "model", "in", &c));
  c->line = reader ? reader->config->line : 0;
  TS_TRY(layer_new(&l, g, &ts_layer_concat, c));
  TS_TRY(ts_graph_take_tokens(l, TS_ROLE_IN, values, n));
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

static ts_err join_role(ts_graph *g, ts_layer *l, ts_role role, ts_value **v,
                        int32_t n) {
  const bool before = role == TS_ROLE_BEFORE;
  const bool fields = before ? n > 1 : l->ops->wants_fields;
  ts_value *one = v[0];
  if (fields && n == 1 && one->shape.form != TS_FIELDS)
    return no_fields(l, &one, 1);
  if (n > 1 || (one->emb && (before || !reads_it(g, l, one))))
    TS_DO(ts_graph_join(g, l, v, n, fields, &one));
  return take_input(l, role, one);
}

/* Each by itself. */
static ts_err take_each(ts_graph *g, ts_layer *l, ts_role role, ts_value **v,
                        int32_t n) {
  for (int32_t k = 0; k < n; k++) {
    ts_value *one = v[k];
    const ts_emb_set *joined = NULL;
    if (one->emb && !(role == TS_ROLE_IN && reads_it(g, l, one))) {
      TS_DO(ts_graph_join(g, l, &v[k], 1, false, &one));
      joined = v[k]->emb;
    }
    TS_DO(take_input(l, role, one));
    l->in[ts_layer_n_in(l) - 1].joined = joined;
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
  TS_TRY(ts_graph_take_tokens(l, role, v, n));
  if (n &&
      (role == TS_ROLE_BEFORE || (role == TS_ROLE_IN && l->ops->most == 1)))
    TS_TRY(join_role(g, l, role, v, n));
  else
    TS_TRY(take_each(g, l, role, v, n));
done:
  ts_mem_free(v);
  return err;
}

static ts_err take_inputs(ts_graph *g, ts_layer *l) {
  static const char *const keys[] = {"in", "query", "gate", "items", "before"};
  const ts_layer_config *c = l->config;
  const ts_strings *names[] = {&c->in, &c->query, &c->gate, &c->items,
                               &c->before};
  for (int k = 0; k < TS_ROLE_COUNT; k++) {
    if (k && !l->ops->may[k] && l->ops->roles[k] != (names[k]->n > 0))
      return ts_layer_fail(l,
                           l->ops->roles[k] ? "it needs the key %s"
                                            : "it does not take the key %s",
                           keys[k]);
    TS_DO(take_role(g, l, (ts_role)k, names[k]));
    if (!k && !l->n_in[TS_ROLE_IN] && c->in.n) return TS_OK; /* left out */
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
  if (ts_layer_is_timed(l) && !ops->takes_times)
    TS_THROW_LAYER(l, "it does not take the key times");
  TS_TRY(take_inputs(g, l));
  if (!l->n_in[TS_ROLE_IN] && c->in.n) {
    TS_TRY(ts_mem_extend(&g->skipped, g->n_skipped, g->n_skipped + 1,
                         sizeof *g->skipped, TS_TAG_DENSE));
    g->skipped[g->n_skipped++] = c->name;
    goto done;
  }
  if (ts_layer_is_timed(l)) TS_TRY(ts_graph_time_tokens(l));
  TS_TRY(ops->shape(l));
  if (ops->more) TS_TRY(ts_graph_more_tokens(g, l, ops->more(l)));
  TS_TRY(append(g, l));
  l = NULL;
done:
  layer_free(l);
  return err;
}

ts_err ts_graph_add_own(ts_graph *g, const ts_layer_ops *ops, const char *name,
                        const void *options, ts_value *const pair[2],
                        ts_value **out) {
  ts_err err = TS_OK;
  ts_layer_config *c;
  ts_layer *l = NULL;
  ts_value *in = pair[0];
  if (in->emb)
    TS_TRY(ts_graph_join(g, g->layers[g->n - 1], &pair[0], 1, false, &in));
  TS_TRY(added_config(g, ops->kind, name, "loss", &c));
  c->options = (void *)options;
  TS_TRY(layer_new(&l, g, ops, c));
  TS_TRY(take_input(l, TS_ROLE_IN, in));
  TS_TRY(take_input(l, TS_ROLE_IN, pair[1]));
  TS_TRY(ops->shape(l));
  TS_TRY(append(g, l));
  *out = &l->out[0];
  l = NULL;
done:
  layer_free(l);
  return err;
}

/* Keys of models with names would be left out in silence. */
static ts_err check_others(const ts_config *c) {
  const ts_ints *over = &c->model.over_arch;
  if (!c->model.dense_arch.n &&
      (!over->n || (over->n == 1 && over->item[0] == 1)))
    return TS_OK;
  return ts_fail(TS_ERR_DECK,
                 "%s: model.%s is of dlrm, dcnv2, deepfm and sparsenn: with "
                 "layers leave it out (%s)",
                 c->deck_path,
                 c->model.dense_arch.n ? "dense_arch" : "over_arch",
                 c->model.dense_arch.n ? "[]" : "[1]");
}

static ts_err list_layers(ts_graph *g, const ts_config *c) {
  const ts_named *named = ts_named_of(c);
  g->list = (ts_layer_list){c->model.layers, c->model.n_layers};
  if (c->model.n_layers) return check_others(c);
  if (!named)
    return ts_fail(TS_ERR_DECK,
                   "model.kind: %s is not in this version; it has: %s",
                   c->model.kind, TS_LISTED(TS_MODELS));
  TS_DO(named->layers(&g->made, c)); /* on an error, too, made is freed */
  g->list = g->made;
  return TS_OK;
}

ts_err ts_graph_plan(ts_graph *g, const ts_model_spec *s) {
  const ts_config *c = s->config;
  g->spec = *s;
  TS_DO(list_layers(g, c));
  TS_DO(ts_graph_parts(g));
  g->dense = (ts_value){.name = (char *)"dense",
                        .shape = ts_vector_of(ts_dense_width(c)),
                        .stride = ts_dense_width(c),
                        .is_input = true};
  TS_DO(ts_graph_count_reads(g));
  for (int32_t i = 0; i < g->list.n; i++)
    TS_DO(ts_graph_add(g, &g->list.item[i]));
  TS_DO(ts_graph_outputs(g));
  ts_graph_size_tokens(g);
  ts_graph_halve(g);
  return ts_graph_rows(g);
}
