/* dense_columns.c - a batch's dense row, by the deck's columns. */
#include "base/dense_columns.h"

static bool is_feature(const ts_config *c, const char *name) {
  for (int32_t t = 0; t < c->n_tables; t++)
    for (int32_t i = 0; i < c->tables[t].features.n; i++)
      if (!strcmp(c->tables[t].features.item[i], name)) return true;
  return false;
}

ts_column_kind ts_column_kind_of(const ts_config *c,
                                 const ts_column_config *x) {
  if (x->kind != TS_COLUMN_TIME || !*x->part) return x->kind;
  return is_feature(c, x->name) ? TS_COLUMN_IDS : TS_COLUMN_DENSE;
}

int32_t ts_dense_outputs(const ts_column_config *x) {
  if (strcmp(x->transform, "piecewise_linear") != 0) return 1;
  const int32_t n = x->edges.n ? x->edges.n - 1 : x->bins;
  return n > 1 ? n : 1;
}

ts_dense_span ts_dense_column(const ts_config *c, int32_t k) {
  ts_dense_span span = {0, 0};
  for (int32_t i = 0; i < c->data.n_columns; i++) {
    const ts_column_config *x = &c->data.columns[i];
    if (ts_column_kind_of(c, x) != TS_COLUMN_DENSE) continue;
    span.first += span.n;
    span.n = ts_dense_outputs(x);
    if (k-- == 0) return span;
  }
  return (ts_dense_span){span.first + span.n + k, 1};
}

int32_t ts_dense_width(const ts_config *c) {
  return ts_dense_column(c, c->model.dense_features).first;
}
