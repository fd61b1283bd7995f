/* model.c - the table of models: those of base/kinds.h. */
#include "model/model.h"

#include <string.h>

#include "base/kinds.h"

#define DECLARE(name) extern const ts_model_ops ts_model_##name;
TS_MODELS(DECLARE)
extern const ts_model_ops ts_model_graph;

#define ENTRY(name) &ts_model_##name,
static const ts_model_ops *const table[] = {TS_MODELS(ENTRY)};

const ts_model_ops *ts_model_find(const char *kind) {
  for (size_t i = 0; i < sizeof table / sizeof *table; i++)
    if (!strcmp(table[i]->kind, kind)) return table[i];
  return NULL;
}

const ts_model_ops *ts_model_of(const ts_config *c) {
  return c->model.n_layers ? &ts_model_graph : ts_model_find(c->model.kind);
}
