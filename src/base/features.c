/* features.c - the features of a deck's tables. */
#include "base/features.h"

#include <stdlib.h>

#include "base/mem.h"

int32_t ts_feature_count(const ts_config *c) {
  int32_t n = 0;
  for (int32_t t = 0; t < c->n_tables; t++) n += c->tables[t].features.n;
  return n;
}

const ts_table_config *ts_feature_table(const ts_config *c, int32_t f,
                                        const char **name) {
  int32_t t = 0;
  while (f >= c->tables[t].features.n) f -= c->tables[t++].features.n;
  if (name) *name = c->tables[t].features.item[f];
  return &c->tables[t];
}

bool ts_feature_is(const ts_table_config *t, int32_t i, const char *name) {
  const char *feature = t->features.item[i];
  const size_t n = strlen(feature);
  if (strncmp(name, feature, n) != 0) return false;
  if (!name[n]) return true;
  if (name[n] != '@' || !t->name) return false;
  return !strcmp(name + n + 1, t->name) ||
         !strcmp(name + n + 1, ts_table_whole(t)->name);
}

int32_t ts_feature_find(const ts_config *c, const char *name) {
  int32_t at = -1;
  for (int32_t t = 0, f = 0; t < c->n_tables; t++)
    for (int32_t i = 0; i < c->tables[t].features.n; i++, f++) {
      if (!strcmp(c->tables[t].features.item[i], name)) return f;
      if (at < 0 && ts_feature_is(&c->tables[t], i, name)) at = f;
    }
  return at;
}

int32_t ts_feature_of_times(const ts_config *c) {
  for (int32_t k = 0; k < c->model.n_layers; k++)
    if (c->model.layers[k].times && *c->model.layers[k].times)
      return ts_feature_find(c, c->model.layers[k].times);
  return -1;
}

int32_t ts_feature_column(const ts_config *c, int32_t f, int32_t n) {
  const char *name, *other;
  int32_t column = 0;
  if (n >= ts_feature_count(c)) return f;
  (void)ts_feature_table(c, f, &name);
  for (int32_t g = 0; g < f; g++) {
    (void)ts_feature_table(c, g, &other);
    if (!strcmp(name, other)) return column;
    column += ts_feature_find(c, other) == g;
  }
  return column;
}

/* ---- columns ------------------------------------------------------------- */

typedef struct ts_named {
  const char *name;
  int32_t f;
} ts_named;

static int by_name(const void *a, const void *b) {
  const ts_named *x = a, *y = b;
  const int order = strcmp(x->name, y->name);
  return order ? order : (x->f > y->f) - (x->f < y->f);
}

ts_err ts_feature_columns_create(ts_feature_columns *m, const ts_config *c) {
  ts_err err = TS_OK;
  ts_named *all = NULL;
  const int32_t n = ts_feature_count(c);
  *m = (ts_feature_columns){.n_features = n};
  TS_TRY(ts_mem_many(m->first, n, MISC));
  TS_TRY(ts_mem_many(m->column, n, MISC));
  TS_TRY(ts_mem_many(all, n, MISC));
  for (int32_t t = 0, f = 0; t < c->n_tables; t++)
    for (int32_t i = 0; i < c->tables[t].features.n; i++, f++)
      all[f] = (ts_named){c->tables[t].features.item[i], f};
  if (n) qsort(all, (size_t)n, sizeof *all, by_name);
  for (int32_t i = 0; i < n; i++) {
    const bool again = i && !strcmp(all[i].name, all[i - 1].name);
    m->first[all[i].f] = again ? m->first[all[i - 1].f] : all[i].f;
  }
  for (int32_t f = 0; f < n; f++)
    m->column[f] = m->first[f] < f ? m->column[m->first[f]] : m->n++;
done:
  ts_mem_free(all);
  if (err != TS_OK) ts_feature_columns_reset(m);
  return err;
}

void ts_feature_columns_reset(ts_feature_columns *m) {
  ts_mem_free_all(m->first, m->column);
  *m = (ts_feature_columns){0};
}
