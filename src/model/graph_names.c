/* graph_names.c - what names stand for. */
#include <string.h>

#include "base/features.h"
#include "base/mem.h"
#include "base/str.h"
#include "model/graph.h"

/* ---- embeddings ---------------------------------------------------------- */

static bool in_group(const ts_table_config *t, const char *group) {
  return !strcmp(t->group ? t->group : "", group);
}

/* How many tables FEATURE is in. */
static int32_t n_tables_of(const ts_config *c, const char *feature) {
  int32_t n = 0;
  for (int32_t t = 0; t < c->n_tables; t++)
    for (int32_t i = 0; i < c->tables[t].features.n; i++)
      n += ts_table_is_first(&c->tables[t]) &&
           !strcmp(c->tables[t].features.item[i], feature);
  return n;
}

/* Whether NAME is feature I of table T: "f", or "f@table". */
static bool is_feature(const ts_config *c, int32_t t, int32_t i,
                       const char *name) {
  const char *feature = c->tables[t].features.item[i];
  const size_t n = strlen(feature);
  if (strncmp(name, feature, n) != 0) return false;
  if (name[n] == '@') return !strcmp(name + n + 1, c->tables[t].name);
  return !name[n] && n_tables_of(c, feature) == 1;
}

/* The features of GROUP, or the one called NAME where GROUP is NULL. */
static ts_err list_features(ts_emb_set *set, const ts_config *c,
                            const char *group, const char *name) {
  TS_DO(ts_mem_many(set->feature, ts_feature_count(c), DENSE));
  for (int32_t t = 0, f = 0; t < c->n_tables; t++)
    for (int32_t i = 0; i < c->tables[t].features.n; i++, f++)
      if (group ? in_group(&c->tables[t], group) &&
                      c->tables[t].pooling != TS_POOL_NONE
                : is_feature(c, t, i, name))
        set->feature[set->n++] = f;
  return TS_OK;
}

static bool same(const ts_emb_set *a, const ts_emb_set *b) {
  return a->n == b->n &&
         !memcmp(a->feature, b->feature, (size_t)a->n * sizeof *a->feature);
}

static ts_shape shape_of(const ts_config *c, const ts_emb_set *set) {
  int64_t width = 0;
  const int32_t dim = ts_feature_table(c, set->feature[0], NULL)->dim;
  bool equal = true;
  for (int32_t k = 0; k < set->n; k++) {
    const int32_t d = ts_feature_table(c, set->feature[k], NULL)->dim;
    equal &= d == dim;
    width += d;
  }
  if (width > TS_WIDTH_MAX) width = TS_WIDTH_MAX + 1; /* refused as it's read */
  return equal && set->n > 1 ? ts_fields_of(set->n, dim)
                             : ts_vector_of((int32_t)width);
}

/* The value of SET, which it takes: the one that is there, or a new one. */
static ts_err emb_value(ts_graph *g, const ts_layer *l, ts_emb_set *set,
                        const char *name, ts_value **out) {
  ts_err err = TS_OK;
  ts_value *v = NULL;
  for (int32_t k = 0; k < g->n_emb; k++)
    if (same(g->emb[k]->emb, set)) {
      *out = g->emb[k];
      ts_mem_free_all(set->feature, set);
      return TS_OK;
    }
  TS_TRY(ts_mem_resize(&g->emb, (size_t)g->n_emb * sizeof *g->emb,
                       (size_t)(g->n_emb + 1) * sizeof *g->emb, TS_TAG_DENSE));
  TS_TRY(ts_mem_alloc(&v, sizeof *v, TS_TAG_DENSE));
  g->emb[g->n_emb++] = v;
  v->shape = shape_of(g->spec.config, set);
  v->stride = ts_shape_width(v->shape);
  v->above = true;
  v->emb = set;
  set = NULL;
  TS_TRY(ts_mem_strdup(&v->name, name));
  if (ts_feature_table(g->spec.config, v->emb->feature[0], NULL)->pooling ==
      TS_POOL_NONE)
    TS_TRY(ts_graph_of_tokens(g, l, v, v->emb->feature[0]));
  *out = v;
done:
  if (set) ts_mem_free_all(set->feature, set);
  return err;
}

/* ---- names --------------------------------------------------------------- */

/* The graph has put it there, the deck can't name it. */
static bool is_added(const ts_graph *g, const ts_layer *l) {
  for (int32_t k = 0; k < g->n_added; k++)
    if (g->added[k] == l->config) return true;
  return false;
}

static ts_value *output_of(const ts_graph *g, const char *name) {
  for (int32_t i = g->n - 1; i >= 0; i--)
    for (int32_t k = 0; k < g->layers[i]->n_out; k++)
      if (!strchr(g->layers[i]->config->name, ':') && /* the graph's own */
          !strcmp(g->layers[i]->out[k].name, name) &&
          !is_added(g, g->layers[i]))
        return &g->layers[i]->out[k];
  return NULL;
}

const ts_value *ts_graph_value(const ts_model *m, const char *name) {
  return output_of((const ts_graph *)m, name);
}

const char *ts_graph_group_of(const char *name) {
  const char *colon = strchr(name, ':');
  const size_t n = colon ? (size_t)(colon - name) : strlen(name);
  if (strncmp(name, "embeddings", n > 10 ? n : 10) != 0 &&
      strncmp(name, "fields", n > 6 ? n : 6) != 0)
    return NULL;
  return colon ? colon + 1 : "";
}

static ts_err count(ts_graph *g, const ts_strings *names) {
  ts_err err = TS_OK;
  const ts_config *c = g->spec.config;
  for (int32_t i = 0; i < names->n; i++) {
    ts_emb_set set = {0};
    err = list_features(&set, c, ts_graph_group_of(names->item[i]),
                        names->item[i]);
    for (int32_t k = 0; err == TS_OK && k < set.n; k++)
      g->n_reads[set.feature[k]]++;
    ts_mem_free(set.feature);
    TS_DO(err);
  }
  return TS_OK;
}

ts_err ts_graph_count_reads(ts_graph *g) {
  const ts_config *c = g->spec.config;
  TS_DO(ts_mem_many(g->n_reads, ts_feature_count(c) + 1, DENSE));
  for (int32_t i = 0; i < g->list.n; i++) {
    const ts_layer_config *l = &g->list.item[i];
    const ts_strings *names[] = {&l->in, &l->query, &l->gate, &l->items,
                                 &l->before};
    for (int k = 0; k < TS_ROLE_COUNT; k++) TS_DO(count(g, names[k]));
  }
  for (int32_t k = 0; k < c->model.n_tasks; k++) {
    char *in = (char *)ts_graph_task_in(g, k);
    if (in && *in) TS_DO(count(g, &(ts_strings){&in, 1}));
  }
  return TS_OK;
}

/* What was perhaps meant: the nearest of the names that are there. */
static ts_err not_there(const ts_graph *g, const ts_layer *l,
                        const char *name) {
  const ts_config *c = g->spec.config;
  const char *best = NULL;
  int least = 4;
#define TRY(text)                                                              \
  do {                                                                         \
    const char *one = (text);                                                  \
    const int far = ts_str_distance(one, name);                                \
    if (far < least) best = one, least = far;                                  \
  } while (0)
  TRY("dense");
  TRY("embeddings");
  TRY("fields");
  for (int32_t i = 0; i < g->n; i++) TRY(g->layers[i]->config->name);
  for (int32_t t = 0; t < c->n_tables; t++)
    for (int32_t i = 0; i < c->tables[t].features.n; i++)
      TRY(c->tables[t].features.item[i]);
#undef TRY
  for (int32_t i = 0; i < g->list.n; i++)
    if (!strcmp(g->list.item[i].name, name))
      return ts_layer_fail(l,
                           "it reads \"%.80s\", which stands below it (line "
                           "%d): a layer reads inputs and layers above it",
                           name, g->list.item[i].line);
  return ts_layer_fail(l,
                       "it reads \"%.80s\": there is no input or layer of "
                       "that name%s%.80s%s",
                       name, best ? "; did you mean \"" : "", best ? best : "",
                       best ? "\"?" : "");
}

static ts_err find_dense(ts_graph *g, const ts_layer *l, const char *name,
                         ts_value **out, bool *skip) {
  const bool optional = name[5] == '?';
  *out = &g->dense;
  *skip = optional && !g->dense.shape.dim;
  if (g->dense.shape.dim || optional) return TS_OK;
  return ts_layer_fail(l, "it reads \"dense\", but model.dense_features is 0; "
                          "\"dense?\" is left out then");
}

ts_err ts_graph_find(ts_graph *g, const ts_layer *l, const char *name,
                     ts_value **out, bool *skip) {
  const ts_config *c = g->spec.config;
  const char *group = ts_graph_group_of(name);
  ts_emb_set *set = NULL;
  *skip = false;
  if ((*out = output_of(g, name))) return TS_OK;
  for (int32_t i = 0; i < g->n_skipped; i++)
    if ((*skip = !strcmp(g->skipped[i], name))) return TS_OK;
  if (!strcmp(name, "dense") || !strcmp(name, "dense?"))
    return find_dense(g, l, name, out, skip);
  TS_DO(ts_mem_alloc(&set, sizeof *set, TS_TAG_DENSE));
  ts_err err = list_features(set, c, group, name);
  if (err == TS_OK && set->n) return emb_value(g, l, set, name, out);
  ts_mem_free_all(set->feature, set);
  if (err != TS_OK) return err;
  if (group)
    return ts_layer_fail(
        l, "it reads \"%.80s\", but no table has group = \"%.80s\"%s", name,
        group,
        strcmp(group, "wide") ? "" : "; wide = true in a table makes one");
  if (!strchr(name, '@') && n_tables_of(c, name) > 1)
    return ts_layer_fail(l,
                         "it reads \"%.80s\", which is in %d tables: say "
                         "\"%.80s@TABLE\"",
                         name, n_tables_of(c, name), name);
  return not_there(g, l, name);
}
