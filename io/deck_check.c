/* deck_check.c - what one key can't know of another. */
#include <math.h>
#include <string.h>

#include "io/deck_impl.h"

static bool given(const config_setting_t *root, const char *path) {
  return config_setting_lookup((config_setting_t *)root, path) != NULL;
}

static void check_one_of(ts_deck *d, const config_setting_t *root,
                         const char *a, const char *b, bool has_a, bool has_b) {
  const config_setting_t *s =
      config_setting_lookup((config_setting_t *)root, a);
  if (has_a && has_b)
    ts_deck_error(d, s, "%s and %s are both given: one of them is enough", a,
                  b);
  if (!has_a && !has_b) ts_deck_error(d, NULL, "%s or %s is missing", a, b);
}

/* Features are looked up in one table each. */
static void check_features(ts_deck *d) {
  const ts_config *c = d->config;
  for (int32_t t = 0; t < c->n_tables; t++)
    for (int32_t i = 0; i < c->tables[t].features.n; i++)
      for (int32_t u = 0; u <= t; u++)
        for (int32_t k = 0; k < (u < t ? c->tables[u].features.n : i); k++)
          if (!strcmp(c->tables[t].features.item[i],
                      c->tables[u].features.item[k]))
            ts_deck_error(d, NULL,
                          "line %d: feature \"%s\" of table %s is already "
                          "in table %s",
                          c->tables[t].line, c->tables[t].features.item[i],
                          c->tables[t].name, c->tables[u].name);
}

static void check_table(ts_deck *d, int32_t t) {
  const ts_config *c = d->config;
  const ts_table_config *x = &c->tables[t];
  if (x->rows < 1)
    ts_deck_error(d, NULL, "line %d: table %s has no rows", x->line, x->name);
  if (!x->features.n)
    ts_deck_error(d, NULL, "line %d: table %s has no features", x->line,
                  x->name);
  for (int32_t u = 0; u < t; u++)
    if (!strcmp(c->tables[u].name, x->name))
      ts_deck_error(d, NULL, "line %d: there are two tables named %s", x->line,
                    x->name);
  if (strchr(x->name, '/') || !*x->name)
    ts_deck_error(d, NULL, "line %d: \"%s\" is no name for a table", x->line,
                  x->name);
}

void ts_deck_check(ts_deck *d, const config_setting_t *root) {
  const ts_config *c = d->config;
  if (!c->n_tables) ts_deck_error(d, NULL, "there are no tables");
  for (int32_t t = 0; t < c->n_tables; t++) check_table(d, t);
  check_features(d);
  check_one_of(d, root, "data.global_batch", "data.batch_per_rank",
               c->data.global_batch > 0, c->data.batch_per_rank > 0);
  if (given(root, "run.steps") && given(root, "run.epochs") &&
      c->run.steps > 0 && c->run.epochs > 0)
    ts_deck_error(d, NULL,
                  "run.steps and run.epochs are both given: one is enough");
  if (!(c->run.steps > 0) && !(c->run.epochs > 0))
    ts_deck_error(d, NULL, "run.steps or run.epochs is missing");
  if (!c->data.train.n && strcmp(c->data.format, "synthetic") != 0)
    ts_deck_error(d, NULL, "data.train is missing");
  const size_t n = strlen(c->data.csv.separator);
  if (n != 1 && strcmp(c->data.csv.separator, "tab") != 0)
    ts_deck_error(d, NULL, "data.csv.separator is one character or \"tab\"");
  for (int32_t i = 0; i < c->optimizer.n_overrides; i++)
    if (!c->optimizer.overrides[i].match)
      ts_deck_error(d, NULL, "optimizer.overrides: one has no match");
}
