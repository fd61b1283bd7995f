/* schema_find.c - the lists of a deck, and looking for keys. */
#include <string.h>

#include "base/str.h"
#include "io/schema.h"

#define LIST(path, scope, field, n_field)                                      \
  {                                                                            \
    path, TS_SCOPE_##scope, offsetof(ts_config, field),                        \
        offsetof(ts_config, n_field), sizeof *((ts_config *)0)->field          \
  }
const ts_key_list ts_schema_lists[] = {
    LIST("data.columns", COLUMN, data.columns, data.n_columns),
    LIST("model.tasks", TASK, model.tasks, model.n_tasks),
    LIST("model.outputs", OUTPUT, model.tasks, model.n_tasks),
    LIST("optimizer.overrides", OVERRIDE, optimizer.overrides,
         optimizer.n_overrides),
    LIST("dense.groups", GROUP, dense.groups, dense.n_groups),
    LIST("dense.forward_prefetch", FORWARD, dense.forward_prefetch,
         dense.n_forward_prefetch),
    LIST("dense.backward_prefetch", BACKWARD, dense.backward_prefetch,
         dense.n_backward_prefetch),
};
const int ts_schema_n_lists = sizeof ts_schema_lists / sizeof *ts_schema_lists;

const ts_key_list *ts_schema_list(const char *path) {
  for (int i = 0; i < ts_schema_n_lists; i++)
    if (!strcmp(ts_schema_lists[i].path, path)) return &ts_schema_lists[i];
  return NULL;
}

bool ts_schema_list_is_on(const ts_key_list *list, const ts_config *c) {
  if (list->scope == TS_SCOPE_OUTPUT) return c->model.has_outputs;
  return list->scope != TS_SCOPE_TASK || !c->model.has_outputs;
}

const ts_key *ts_schema_find(ts_scope scope, const char *path) {
  for (int i = 0; i < ts_schema_n; i++)
    if (ts_schema[i].scope == scope && !strcmp(ts_schema[i].path, path))
      return &ts_schema[i];
  return NULL;
}

int ts_schema_is_group(ts_scope scope, const char *path) {
  const size_t n = strlen(path);
  for (int i = 0; i < ts_schema_n; i++)
    if (ts_schema[i].scope == scope && !strncmp(ts_schema[i].path, path, n) &&
        ts_schema[i].path[n] == '.')
      return 1;
  return 0;
}

/* Last part of a path. */
static const char *leaf(const char *path) {
  const char *dot = strrchr(path, '.');
  return dot ? dot + 1 : path;
}

const char *ts_schema_nearest(ts_scope scope, const char *path) {
  const char *best = NULL;
  int least = 4;
  for (int i = 0; i < ts_schema_n; i++) {
    if (ts_schema[i].scope != scope) continue;
    const char *key = ts_schema[i].path;
    int d = ts_str_distance(key, path);
    /* The right key in the wrong group is near, too. */
    const int of_leaf = ts_str_distance(leaf(key), leaf(path));
    if (of_leaf < 2 && d > of_leaf + 2) d = of_leaf + 2;
    if (d < least) {
      least = d;
      best = key;
    }
  }
  return best;
}
