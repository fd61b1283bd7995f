/* features.c - the features of a deck's tables. */
#include "base/features.h"

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
