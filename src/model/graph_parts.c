/* graph_parts.c - layers that make the row of a table with `compress` of the
 * rows of its parts (base/compress.h), before those of the deck, which read
 * them in the table's place.
 *
 *   project@PART   rows of a part, as wide as they are to be; of a table with
 *                  several features of all together, as one matrix is theirs
 *   f@project@PART feature f's of those
 *   f@TABLE        what is made of all parts: their sum, product, or one
 *                  behind the other
 *   fields@GROUP   what "embeddings" and "fields" of a group stand for, where
 *                  such a table is in it */
#include <string.h>

#include "base/compress.h"
#include "base/features.h"
#include "base/mem.h"
#include "base/str.h"
#include "model/graph.h"
#include "model/layer_ops.h"

typedef struct ts_parts {
  ts_graph *g;
  const ts_config *config;
  ts_layer_list *made; /* the layers so far */
} ts_parts;

/* ---- names --------------------------------------------------------------- */

/* P is the graph's to give back. */
static ts_err keep(ts_graph *g, void *p) {
  TS_DO(ts_mem_extend(&g->kept, g->n_kept, g->n_kept + 1, sizeof *g->kept,
                      TS_TAG_DENSE));
  g->kept[g->n_kept++] = p;
  return TS_OK;
}

/* A B C, the graph's. */
static ts_err name_of(ts_graph *g, const char **out, const char *a,
                      const char *b, const char *c) {
  ts_str s = {0};
  ts_err err = ts_str_append(&s, "%s%s%s", a, b, c);
  if (err == TS_OK) err = keep(g, s.text);
  if (err != TS_OK) ts_str_reset(&s);
  *out = s.text;
  return err;
}

static bool is_made(const ts_parts *x, const char *name) {
  for (int32_t i = 0; i < x->made->n; i++)
    if (!strcmp(x->made->item[i].name, name)) return true;
  return false;
}

/* ---- a table's row ------------------------------------------------------- */

/* Feature I of table PART, its rows DIM wide, is called *OUT: project@PART, or
 * its feature I. */
static ts_err project(ts_parts *x, const char **out,
                      const ts_table_config *part, int32_t i) {
  const char *stacked, *wide;
  ts_layer_config *l;
  const ts_strings *f = &part->features;
  const char *name = f->item[i];
  TS_DO(name_of(x->g, &wide, "project", "@", part->name));
  *out = wide;
  if (f->n > 1 && part->pooling == TS_POOL_NONE)
    return ts_fail(TS_ERR_DECK,
                   "table %s: with compress.kind = \"%s\" and pooling = "
                   "\"none\" it takes one feature, as sequences of several "
                   "don't lie side by side",
                   part->whole->name, part->whole->compress.kind);
  if (!is_made(x, wide)) {
    TS_DO(name_of(x->g, &stacked, "features", "@", part->name));
    if (f->n > 1) {
      TS_DO(ts_layer_list_add(x->made, &l, stacked, "stack"));
      for (int32_t k = 0; k < f->n; k++) {
        const char *one;
        TS_DO(name_of(x->g, &one, f->item[k], "@", part->name));
        TS_DO(ts_layer_reads(l, one));
      }
    } else {
      TS_DO(name_of(x->g, &stacked, name, "@", part->name));
    }
    TS_DO(ts_layer_list_add(x->made, &l, wide, "linear"));
    *(int32_t *)ts_layer_option(l, "units") = part->whole->dim;
    *(bool *)ts_layer_option(l, "each") = f->n > 1;
    TS_DO(ts_layer_reads(l, stacked));
  }
  if (f->n == 1) return TS_OK;
  TS_DO(name_of(x->g, out, name, "@project@", part->name));
  if (is_made(x, *out)) return TS_OK;
  TS_DO(ts_layer_list_add(x->made, &l, *out, "slice"));
  *(int32_t *)ts_layer_option(l, "from") = i;
  *(int32_t *)ts_layer_option(l, "to") = i + 1;
  return ts_layer_reads(l, wide);
}

/* *OUT: the name of feature I of PART, whose rows are projected where they are
 * narrower than the table's. */
static ts_err part_value(ts_parts *x, const char **out,
                         const ts_table_config *part, int32_t i) {
  const ts_compress_ops *ops = ts_compress_of(part);
  const ts_combine how =
      ops->combine ? ops->combine(part->whole) : TS_COMBINE_ADD;
  if (how != TS_COMBINE_CONCAT && part->dim != part->whole->dim)
    return project(x, out, part, i);
  return name_of(x->g, out, part->features.item[i], "@", part->name);
}

/* *OUT: what feature I of the whole table of FIRST, its first part, is called:
 * f@TABLE, or, of one part, what that part's is. */
static ts_err whole_value(ts_parts *x, const char **out,
                          const ts_table_config *first, int32_t i) {
  static const char *const kinds[] = {[TS_COMBINE_ADD] = "add",
                                      [TS_COMBINE_MULTIPLY] = "multiply",
                                      [TS_COMBINE_CONCAT] = "concat"};
  const ts_compress_ops *ops = ts_compress_of(first);
  const ts_table_config *whole = first->whole;
  const int32_t n = ops->n_parts(whole);
  const char **values = NULL;
  ts_err err = TS_OK;
  ts_layer_config *l;
  TS_TRY(name_of(x->g, out, first->features.item[i], "@", whole->name));
  if (is_made(x, *out)) return TS_OK;
  TS_TRY(ts_mem_many(values, n, DENSE));
  for (int32_t t = 0; t < x->config->n_tables; t++) {
    const ts_table_config *part = &x->config->tables[t];
    if (part->whole == whole)
      TS_TRY(part_value(x, &values[part->part], part, i));
  }
  if (n == 1) *out = values[0];
  if (n == 1) goto done;
  TS_TRY(ts_layer_list_add(
      x->made, &l, *out,
      kinds[ops->combine ? ops->combine(whole) : TS_COMBINE_ADD]));
  for (int32_t k = 0; k < n; k++) TS_TRY(ts_layer_reads(l, values[k]));
done:
  ts_mem_free(values);
  return err;
}

/* ---- what a layer reads -------------------------------------------------- */

/* A group of inputs in which a table of parts is. */
typedef struct ts_group_of {
  const char *group;
  int32_t n, dim; /* features, and what their dim is; 0: several */
  bool parts;
} ts_group_of;

static bool is_in(const ts_table_config *t, const char *group) {
  return !strcmp(t->group ? t->group : "", group) && ts_table_is_first(t) &&
         t->pooling != TS_POOL_NONE;
}

static ts_group_of look_at(const ts_config *c, const char *group) {
  ts_group_of o = {.group = group};
  for (int32_t t = 0; t < c->n_tables; t++) {
    const ts_table_config *x = &c->tables[t];
    if (!is_in(x, group)) continue;
    const int32_t dim = ts_table_whole(x)->dim;
    o.dim = !o.n || o.dim == dim ? dim : 0;
    o.n += x->features.n;
    o.parts |= x->whole != NULL;
  }
  return o;
}

/* Feature I of table T, or of the whole that T is the first part of. */
static ts_err feature_name(ts_parts *x, const char **out,
                           const ts_table_config *t, int32_t i) {
  if (t->whole) return whole_value(x, out, t, i);
  return name_of(x->g, out, t->features.item[i], "@", t->name);
}

/* L reads the group's features one by one. */
static ts_err read_features(ts_parts *x, ts_strings *to,
                            const ts_group_of *of) {
  const ts_config *c = x->config;
  for (int32_t t = 0; t < c->n_tables; t++)
    for (int32_t i = 0;
         is_in(&c->tables[t], of->group) && i < c->tables[t].features.n; i++) {
      const char *name;
      TS_DO(feature_name(x, &name, &c->tables[t], i));
      TS_DO(ts_mem_extend(&to->item, to->n, to->n + 1, sizeof *to->item,
                          TS_TAG_DENSE));
      to->item[to->n++] = (char *)name;
    }
  return TS_OK;
}

/* The group's features as one input where they are of one dim. */
static ts_err read_group(ts_parts *x, ts_strings *to, const ts_group_of *of) {
  ts_err err = TS_OK;
  const char *name;
  ts_layer_config *l;
  ts_strings all = {0};
  if (!of->dim || of->n < 2) return read_features(x, to, of);
  TS_TRY(name_of(x->g, &name, "fields", "@", of->group));
  if (!is_made(x, name)) {
    TS_TRY(read_features(x, &all, of));
    TS_TRY(ts_layer_list_add(x->made, &l, name, "stack"));
    for (int32_t k = 0; k < all.n; k++) TS_TRY(ts_layer_reads(l, all.item[k]));
  }
  TS_TRY(ts_mem_extend(&to->item, to->n, to->n + 1, sizeof *to->item,
                       TS_TAG_DENSE));
  to->item[to->n++] = (char *)name;
done:
  ts_mem_free(all.item);
  return err;
}

/* The table of parts, and the number there, of the feature that NAME, "f" or
 * "f@TABLE", is; NULL: it is none's, or not one's alone. */
static const ts_table_config *find(const ts_config *c, const char *name,
                                   int32_t *at) {
  const ts_table_config *found = NULL;
  int32_t n = 0;
  for (int32_t t = 0; t < c->n_tables; t++) {
    const ts_table_config *x = &c->tables[t];
    for (int32_t i = 0; ts_table_is_first(x) && i < x->features.n; i++) {
      const ts_table_config whole = {.name = ts_table_whole(x)->name,
                                     .features = x->features};
      if (!ts_feature_is(&whole, i, name)) continue;
      n++;
      if (x->whole) found = x, *at = i;
    }
  }
  return n == 1 ? found : NULL;
}

static bool is_layer(const ts_graph *g, const char *name) {
  for (int32_t i = 0; i < g->list.n; i++)
    if (!strcmp(g->list.item[i].name, name)) return true;
  return false;
}

/* NAME, or what it stands for, behind the names of TO. */
static ts_err read_name(ts_parts *x, ts_strings *to, const char *name) {
  int32_t i = 0;
  const char *group = ts_graph_group_of(name), *as = name;
  const bool layer = is_layer(x->g, name);
  const ts_group_of of = look_at(x->config, group ? group : "");
  if (group && !layer && of.parts) return read_group(x, to, &of);
  const ts_table_config *t = layer ? NULL : find(x->config, name, &i);
  if (t) TS_DO(whole_value(x, &as, t, i));
  TS_DO(ts_mem_extend(&to->item, to->n, to->n + 1, sizeof *to->item,
                      TS_TAG_DENSE));
  to->item[to->n++] = (char *)as;
  return TS_OK;
}

/* FROM with what its names stand for. */
static ts_err read_names(ts_parts *x, ts_strings *names) {
  const ts_strings from = *names;
  ts_strings to = {0};
  ts_err err = TS_OK;
  for (int32_t k = 0; err == TS_OK && k < from.n; k++)
    err = read_name(x, &to, from.item[k]);
  const ts_err kept = to.item ? keep(x->g, to.item) : TS_OK;
  if (kept != TS_OK) ts_mem_free(to.item);
  if (err == TS_OK && kept == TS_OK) *names = to;
  return err != TS_OK ? err : kept;
}

/* ---- all ----------------------------------------------------------------- */

static ts_err read_all(ts_parts *x, ts_layer_config *all) {
  for (int32_t i = 0; i < x->g->list.n; i++) {
    ts_layer_config *l = &all[i];
    ts_strings *names[] = {&l->in, &l->query, &l->gate, &l->items, &l->before};
    *l = x->g->list.item[i];
    for (int k = 0; k < TS_ROLE_COUNT; k++) TS_DO(read_names(x, names[k]));
  }
  return TS_OK;
}

static ts_err read_outputs(ts_parts *x) {
  ts_graph *g = x->g;
  ts_strings to = {0};
  ts_err err = TS_OK;
  const int32_t n = x->config->model.n_tasks;
  TS_DO(ts_mem_many(g->task_in, n, DENSE));
  for (int32_t k = 0; k < n; k++) {
    const char *in = x->config->model.tasks[k].in;
    if (in && *in) TS_TRY(read_name(x, &to, in));
    g->task_in[k] = to.n ? to.item[0] : in;
    to.n = 0;
  }
done:
  ts_mem_free(to.item);
  return err;
}

const char *ts_graph_task_in(const ts_graph *g, int32_t k) {
  return g->task_in ? g->task_in[k] : g->spec.config->model.tasks[k].in;
}

ts_err ts_graph_parts(ts_graph *g) {
  ts_err err = TS_OK;
  ts_layer_config *all = NULL, *joined = NULL;
  const ts_config *c = g->spec.config;
  const int32_t n = g->list.n;
  ts_parts x = {.g = g, .config = c, .made = &g->parts};
  bool any = false;
  for (int32_t t = 0; t < c->n_tables; t++) any |= c->tables[t].whole != NULL;
  if (!any) return TS_OK;
  TS_TRY(ts_mem_many(all, n, DENSE));
  TS_TRY(read_all(&x, all));
  TS_TRY(read_outputs(&x));
  TS_TRY(ts_mem_many(joined, n + g->parts.n, DENSE));
  if (g->parts.n)
    memcpy(joined, g->parts.item, (size_t)g->parts.n * sizeof *joined);
  if (n) memcpy(joined + g->parts.n, all, (size_t)n * sizeof *joined);
  g->list = (ts_layer_list){joined, n + g->parts.n};
  TS_TRY(keep(g, joined));
  joined = NULL;
done:
  ts_mem_free_all(all, joined);
  return err;
}
