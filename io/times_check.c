/* times_check.c - the feature whose ids are times of tokens (key times of
 * layers): what the deck has to say of it elsewhere. */
#include <string.h>

#include "base/features.h"
#include "base/tasks.h"
#include "io/deck_impl.h"

/* Why its table can't be that of times; NULL: it can. */
static const char *why_not(const ts_config *c, const ts_table_config *t,
                           int32_t f, const char *name) {
  int32_t n = 0;
  for (int32_t k = 0; k < ts_feature_count(c); k++) {
    const char *other;
    (void)ts_feature_table(c, k, &other);
    n += !strcmp(name, other);
  }
  if (n > 1) return "another table has it, too";
  if (t->features.n > 1) return "that table has other features, too";
  if (t->rows != 1) return "that table's rows are not 1";
  if (t->pooling != TS_POOL_NONE) return "that table pools";
  if (t->weighted) return "that table is weighted";
  for (int32_t k = 0; k < c->model.n_tasks; k++)
    for (int32_t i = 0; i < c->model.tasks[k].exclude.n; i++)
      if (ts_feature_find(c, c->model.tasks[k].exclude.item[i]) == f)
        return "an output's exclude names it";
  if (c->metrics.group && !strcmp(c->metrics.group, name))
    return "metrics.group names it";
  return ts_task_reads(c, f) ? "a layer reads it for what it looks up" : NULL;
}

/* Its ids are read as they are.  A CSV file's default, which is a hash, is
 * refused by io/csv_values.c. */
static bool is_plain(const ts_column_config *x) {
  return (!*x->encoding || !strcmp(x->encoding, "none")) && !x->cross.n &&
         !*x->part && !x->edges.n && !x->bins;
}

/* Times are read as they are, and no id goes away without its time. */
static void check_data(ts_deck *d, const config_setting_t *root,
                       const char *name) {
  const ts_config *c = d->config;
  for (int32_t k = 0; k < c->data.n_columns; k++) {
    const ts_column_config *x = &c->data.columns[k];
    if (!strcmp(x->name, name) && !is_plain(x))
      ts_deck_error(d, NULL,
                    "times: \"%.80s\" has to be numbers as they are: give it "
                    "encoding = \"none\" in data.columns",
                    name);
    for (int32_t i = 0; i < c->model.n_tasks; i++)
      if (x->max_length && c->model.tasks[i].masked &&
          !strcmp(c->model.tasks[i].masked, x->name))
        ts_deck_error(d, NULL,
                      "times: max_length of \"%.80s\", of which masked hides "
                      "ids, would move them: cut the data before (tessera "
                      "convert --max-length) and give data.max_tokens",
                      x->name);
  }
  if (c->data.on_bad_id == TS_ON_BAD_DROP)
    ts_deck_error(
        d, config_setting_lookup((config_setting_t *)root, "data.on_bad_id"),
        "data.on_bad_id = \"drop\" would leave the times of ids that "
        "go (\"%.80s\"): give \"stop\"",
        name);
}

void ts_times_check(ts_deck *d, const config_setting_t *root) {
  const ts_config *c = d->config;
  const int32_t f = ts_feature_of_times(c);
  const config_setting_t *s =
      config_setting_lookup((config_setting_t *)root, "model.layers");
  for (int32_t k = 0; k < c->model.n_layers; k++) {
    const char *name = c->model.layers[k].times;
    if (!name || !*name) continue;
    const int32_t own = ts_feature_find(c, name);
    if (own < 0)
      ts_deck_error(d, s,
                    "layer %.80s: times: no table has a feature \"%.80s\"",
                    c->model.layers[k].name, name);
    else if (own != f)
      ts_deck_error(d, s,
                    "layer %.80s: times: \"%.80s\" is another feature than "
                    "that of the layers above: a deck has one",
                    c->model.layers[k].name, name);
  }
  if (f < 0) return;
  const char *name, *why;
  const ts_table_config *t = ts_feature_table(c, f, &name);
  why = why_not(c, t, f, name);
  if (why)
    ts_deck_error(
        d, s,
        "times: \"%.80s\" is of table %.80s, of which nothing is "
        "looked up, but %s: give it one of its own, { name = \"%.80s\"; "
        "rows = 1; dim = 4; features = [\"%.80s\"]; pooling = \"none\"; }",
        name, t->name, why, name, name);
  check_data(d, root, name);
}
