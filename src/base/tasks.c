/* tasks.c - features that outputs over items name. */
#include "base/tasks.h"

#include "base/features.h"

bool ts_task_has_tower(const ts_config *c, const ts_task_config *x) {
  const size_t n = x->items ? strcspn(x->items, "@") : 0;
  for (int32_t k = 0; n && k < c->model.n_layers; k++)
    if (!strncmp(c->model.layers[k].name, x->items, n) &&
        !c->model.layers[k].name[n])
      return true;
  return false;
}

int32_t ts_task_candidates(const ts_config *c, const ts_task_config *x) {
  const bool any = !*x->items || ts_task_has_tower(c, x);
  for (int32_t t = 0, f = 0; t < c->n_tables; t++)
    for (int32_t i = 0; i < c->tables[t].features.n; i++, f++)
      if (ts_feature_is(&c->tables[t], i, x->target) &&
          (any || !strcmp(x->items, c->tables[t].name)))
        return f;
  return -1;
}

/* Its column is in exclude of some output. */
static bool is_excluded(const ts_config *c, const char *name) {
  for (int32_t k = 0; k < c->model.n_tasks; k++)
    for (int32_t i = 0; i < c->model.tasks[k].exclude.n; i++) {
      const char *other;
      const int32_t f = ts_feature_find(c, c->model.tasks[k].exclude.item[i]);
      if (f < 0) continue;
      (void)ts_feature_table(c, f, &other);
      if (!strcmp(name, other)) return true;
    }
  return false;
}

static bool is_among(const ts_table_config *t, int32_t i, const ts_strings *s) {
  for (int32_t k = 0; k < s->n; k++)
    if (ts_feature_is(t, i, s->item[k])) return true;
  return false;
}

/* A layer or an output reads feature I of table T: sequences are in no group.
 */
static bool is_read(const ts_config *c, const ts_table_config *t, int32_t i) {
  for (int32_t k = 0; k < c->model.n_layers; k++) {
    const ts_layer_config *l = &c->model.layers[k];
    if (is_among(t, i, &l->in) || is_among(t, i, &l->query) ||
        is_among(t, i, &l->gate) || is_among(t, i, &l->items) ||
        is_among(t, i, &l->before))
      return true;
  }
  for (int32_t k = 0; k < c->model.n_tasks; k++) {
    const ts_task_config *x = &c->model.tasks[k];
    if ((x->in && ts_feature_is(t, i, x->in)) ||
        (x->target && ts_feature_is(t, i, x->target)))
      return true;
  }
  return false;
}

bool ts_task_reads(const ts_config *c, int32_t f) {
  for (int32_t k = 0; k < c->n_tables; f -= c->tables[k++].features.n)
    if (f < c->tables[k].features.n) return is_read(c, &c->tables[k], f);
  return false;
}

bool ts_task_only_excludes(const ts_config *c, int32_t f) {
  const char *name;
  (void)ts_feature_table(c, f, &name);
  if (!is_excluded(c, name)) return false;
  for (int32_t k = 0; k < c->n_tables; k++) {
    const ts_table_config *t = &c->tables[k];
    for (int32_t i = 0; i < t->features.n; i++)
      if (!strcmp(t->features.item[i], name) &&
          (t->pooling != TS_POOL_NONE || is_read(c, t, i)))
        return false;
  }
  return true;
}
