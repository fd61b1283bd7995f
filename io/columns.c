/* columns.c - what the deck says of the input's columns. */
#include "io/columns.h"

#include <string.h>

#include "io/batch_store.h"

static const ts_column_config *find(const ts_config *c, ts_column_kind kind,
                                    const char *name) {
  for (int32_t i = 0; i < c->data.n_columns; i++)
    if (c->data.columns[i].kind == kind &&
        !strcmp(c->data.columns[i].name, name))
      return &c->data.columns[i];
  return NULL;
}

ts_column_config ts_column_of_feature(const ts_config *c, int32_t f) {
  const char *name;
  (void)ts_feature_table(c, f, &name);
  const ts_column_config *given = find(c, TS_COLUMN_IDS, name);
  ts_column_config x = {.name = (char *)name,
                        .kind = TS_COLUMN_IDS,
                        .from = "",
                        .encoding = "",
                        .list_separator = c->data.csv.list_separator,
                        .min_count = 1};
  if (given) x = *given;
  if (!*x.from) x.from = (char *)name;
  if (!*x.encoding) x.encoding = c->data.csv.encoding;
  return x;
}
