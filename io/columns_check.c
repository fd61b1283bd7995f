/* columns_check.c - data.columns against the tables, the tasks and the keys
 * of the formats. */
#include <math.h>
#include <string.h>

#include "base/features.h"
#include "base/tasks.h"
#include "io/columns.h"
#include "io/deck_impl.h"
#include "io/source.h"

static bool is_in(const ts_strings *list, const char *a) {
  for (int32_t i = 0; i < list->n; i++)
    if (!strcmp(list->item[i], a)) return true;
  return false;
}

static int32_t count(const ts_config *c, ts_column_kind kind) {
  int32_t n = 0;
  for (int32_t i = 0; i < c->data.n_columns; i++)
    n += c->data.columns[i].kind == kind;
  return n;
}

static bool is_feature(const ts_config *c, const char *name) {
  for (int32_t t = 0; t < c->n_tables; t++)
    if (is_in(&c->tables[t].features, name)) return true;
  return false;
}

static bool is_column(const ts_config *c, const char *name) {
  for (int32_t i = 0; i < c->data.n_columns; i++) {
    const ts_column_config *x = &c->data.columns[i];
    const bool ids =
        x->kind == TS_COLUMN_IDS || (x->kind == TS_COLUMN_TIME && *x->part);
    if (ids && !strcmp(x->name, name)) return true;
  }
  return false;
}

/* Keys that say something of other kinds. */
static void check_keys(ts_deck *d, const config_setting_t *s,
                       const ts_column_config *x) {
  const bool ids = x->kind == TS_COLUMN_IDS;
  const bool dense = x->kind == TS_COLUMN_DENSE;
  const bool dated = ids || dense || x->kind == TS_COLUMN_TIME;
  const char *of = NULL, *key = NULL;
  if (*x->transform && !dense) key = "transform", of = "dense";
  if (x->cross.n && !ids) key = "cross", of = "ids";
  if (*x->list_separator && !ids) key = "list_separator", of = "ids";
  if (*x->encoding && x->kind != TS_COLUMN_TIME && !ids)
    key = "encoding", of = "ids";
  if (x->max_length && !ids) key = "max_length", of = "ids";
  if (!strcmp(x->truncate, "oldest") && !ids) key = "truncate", of = "ids";
  if (!strcmp(x->missing, "word") && !ids) key = "missing", of = "ids";
  if (*x->part && !dated) key = "part", of = "time";
  if (strcmp(x->label, "binary") != 0 && x->kind != TS_COLUMN_LABEL)
    key = "label", of = "label";
  if (key)
    ts_deck_error(d, s, "data.columns: %s of \"%.80s\" is for kind \"%s\"", key,
                  x->name, of);
  if (x->cross.n == 1 || (x->cross.n && (*x->part || *x->list_separator)))
    ts_deck_error(d, s,
                  "data.columns: cross of \"%.80s\" takes the names of two "
                  "columns or more, and neither part nor list_separator",
                  x->name);
  const bool counts = *x->encoding
                          ? !strcmp(x->encoding, "vocabulary")
                          : !strcmp(d->config->data.csv.encoding, "vocabulary");
  if ((x->min_count > 1 || *x->group) && (!ids || !counts))
    ts_deck_error(d, s,
                  "data.columns: %s of \"%.80s\" is for a vocabulary, of kind "
                  "\"ids\"",
                  *x->group ? "group" : "min_count", x->name);
  if (*x->part && *x->list_separator)
    ts_deck_error(d, s,
                  "data.columns: \"%.80s\" has part and list_separator: a list "
                  "of times has no parts",
                  x->name);
  if (!strcmp(x->missing, "word") &&
      (!strcmp(x->encoding, "none") || !strcmp(x->encoding, "modulo")))
    ts_deck_error(d, s,
                  "data.columns: \"%.80s\" has encoding \"%s\", of numbers: "
                  "missing = \"word\" is no number",
                  x->name, x->encoding);
  if (strlen(x->list_separator) > 1 || *x->list_separator == '"')
    ts_deck_error(d, s,
                  "data.columns: list_separator of \"%.80s\" is one character, "
                  "not a quote",
                  x->name);
}

/* Edges, or bins that quantiles lie between. */
static void check_bins(ts_deck *d, const config_setting_t *s,
                       const ts_column_config *x, bool buckets) {
  const int32_t least = buckets ? 1 : 2;
  bool rising = true;
  for (int32_t i = 0; i < x->edges.n; i++)
    rising &= isfinite(x->edges.item[i]) &&
              (!i || x->edges.item[i] > x->edges.item[i - 1]);
  if (!x->edges.n == !x->bins)
    ts_deck_error(d, s,
                  "data.columns: \"%.80s\" takes edges, or bins (how many the "
                  "training data's quantiles make): one of the two",
                  x->name);
  else if (x->bins == 1 || (x->edges.n && x->edges.n < least))
    ts_deck_error(
        d, s,
        "data.columns: \"%.80s\" takes %d edges or more, or 2 bins or "
        "more",
        x->name, least);
  if (!rising)
    ts_deck_error(
        d, s,
        "data.columns: edges of \"%.80s\" are to rise, each more than "
        "the one before",
        x->name);
}

/* What is made of a number is one id, row 0 where it is missing. */
static void check_buckets(ts_deck *d, const config_setting_t *s,
                          const ts_column_config *x) {
  const ts_config *c = d->config;
  const char *key = NULL;
  check_bins(d, s, x, true);
  if (x->cross.n) key = "cross";
  if (*x->part) key = "part";
  if (*x->list_separator) key = "list_separator";
  if (x->max_length) key = "max_length";
  if (!strcmp(x->truncate, "oldest")) key = "truncate";
  if (x->seed) key = "seed";
  if (!strcmp(x->missing, "word")) key = "missing";
  for (int32_t t = 0; t < c->n_tables; t++)
    if (c->tables[t].weighted && is_in(&c->tables[t].features, x->name))
      key = "a weighted table";
  if (key)
    ts_deck_error(d, s,
                  "data.columns: \"%.80s\" has encoding \"bucketise\", which "
                  "takes one number and no %s",
                  x->name, key);
}

/* Keys of transforms, and of bucketise. */
static void check_numbers(ts_deck *d, const config_setting_t *s,
                          const ts_column_config *x) {
  const bool clips = !strcmp(x->transform, "clip");
  const bool pieces = !strcmp(x->transform, "piecewise_linear");
  const bool ranks = !strcmp(x->transform, "quantile");
  const bool buckets = !strcmp(x->encoding, "bucketise");
  const bool limits = !isnan(x->min) || !isnan(x->max);
  const char *key = NULL, *of = NULL;
  if (limits && !clips) key = "min and max", of = "transform = \"clip\"";
  if (x->bins && !pieces && !buckets && !ranks)
    key = "bins", of = "quantile, piecewise_linear and bucketise";
  if (x->edges.n && !pieces && !buckets)
    key = "edges", of = "piecewise_linear and bucketise";
  if (key)
    ts_deck_error(d, s, "data.columns: \"%.80s\" has %s, which is for %s",
                  x->name, key, of);
  if (clips && (!limits || x->min >= x->max))
    ts_deck_error(d, s,
                  "data.columns: \"%.80s\": transform = \"clip\" takes min, "
                  "max or both, min less than max",
                  x->name);
  if (ranks && x->bins == 1)
    ts_deck_error(d, s,
                  "data.columns: \"%.80s\": transform = \"quantile\" takes 2 "
                  "bins or more",
                  x->name);
  if (pieces) check_bins(d, s, x, false);
  if (buckets) check_buckets(d, s, x);
}

/* One vocabulary has one of it. */
static void check_group(ts_deck *d, const config_setting_t *s, int32_t i) {
  const ts_column_config *x = &d->config->data.columns[i];
  for (int32_t k = 0; *x->group && k < i; k++) {
    const ts_column_config *y = &d->config->data.columns[k];
    if (strcmp(x->group, y->group) != 0) continue;
    if (x->min_count != y->min_count)
      ts_deck_error(d, s,
                    "data.columns: \"%.80s\" and \"%.80s\" have group "
                    "\"%.80s\", whose min_count is %lld of the one and %lld of "
                    "the other",
                    y->name, x->name, x->group, (long long)y->min_count,
                    (long long)x->min_count);
    return;
  }
}

static void check_name(ts_deck *d, const config_setting_t *s, int32_t i) {
  const ts_config *c = d->config;
  const ts_column_config *x = &c->data.columns[i];
  for (int32_t k = 0; k < i; k++)
    if (c->data.columns[k].name && c->data.columns[k].kind == x->kind &&
        !strcmp(c->data.columns[k].name, x->name))
      ts_deck_error(d, s, "data.columns: \"%.80s\" is there twice", x->name);
  if (x->kind == TS_COLUMN_IDS && !is_feature(c, x->name))
    ts_deck_error(d, s,
                  "data.columns: no table has a feature \"%.80s\", which is of "
                  "kind \"ids\"",
                  x->name);
}

/* The setting that made column I, which {a..b} may have made many of. */
static const config_setting_t *setting_of(const config_setting_t *list,
                                          int32_t i) {
  for (int k = 0; list && k < config_setting_length(list); k++) {
    const config_setting_t *s = config_setting_get_elem(list, (unsigned)k);
    const char *name = NULL;
    long a = 0, b = 0;
    size_t from, n;
    if (config_setting_is_group(s) &&
        config_setting_lookup_string(s, "name", &name))
      (void)ts_deck_range(name, &a, &b, &from, &n);
    i -= (int32_t)(b - a + 1);
    if (i < 0) return s;
  }
  return list;
}

/* What is given in two places, of which one would count for nothing. */
static void check_twice(ts_deck *d, const config_setting_t *s) {
  const ts_config *c = d->config;
  const bool labels =
      c->data.csv.labels.n || strcmp(c->data.csv.label, "label") != 0;
  const struct {
    bool both;
    const char *kind, *key;
  } pairs[] = {
      {ts_column_n_dense(c) && count(c, TS_COLUMN_DENSE) && c->data.csv.dense.n,
       "dense", "data.csv.dense"},
      {count(c, TS_COLUMN_IDS) && c->data.csv.sparse.n, "ids",
       "data.csv.sparse"},
      {count(c, TS_COLUMN_IDS) && *c->data.csv.list_separator, "ids",
       "data.csv.list_separator"},
      {count(c, TS_COLUMN_LABEL) && labels, "label", "data.csv.label"}};
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
    if (pairs[i].both)
      ts_deck_error(d, s,
                    "data.columns has columns of kind \"%s\", and %s is given, "
                    "too: one of the two is enough",
                    pairs[i].kind, pairs[i].key);
}

/* Where some features have columns, all have: a name that is misspelt would
 * else be two things. */
static void check_features(ts_deck *d, const config_setting_t *s) {
  const ts_config *c = d->config;
  for (int32_t t = 0, f = 0; count(c, TS_COLUMN_IDS) && t < c->n_tables; t++)
    for (int32_t i = 0; i < c->tables[t].features.n; i++, f++)
      if (!is_column(c, c->tables[t].features.item[i]) &&
          ts_feature_find(c, c->tables[t].features.item[i]) == f)
        ts_deck_error(d, s,
                      "data.columns has no column of kind \"ids\" for feature "
                      "\"%.80s\" of table %.80s",
                      c->tables[t].features.item[i],
                      c->tables[t].name ? c->tables[t].name : "");
}

static bool fits(const ts_task_config *task, const char *label) {
  const bool binary = !strcmp(label, "binary"), soft = !strcmp(label, "soft");
  if (ts_task_is_binary(task)) return binary || soft;
  if (ts_task_is_of_classes(task)) return !strcmp(label, "class");
  if (!strcmp(task->loss, "poisson")) return !strcmp(label, "count");
  return !binary && strcmp(label, "class") != 0;
}

static void check_labels(ts_deck *d, const config_setting_t *s) {
  const ts_config *c = d->config;
  const int32_t n = count(c, TS_COLUMN_LABEL), n_tasks = c->model.n_tasks;
  const bool outputs = c->model.has_outputs;
  if (n && n != n_tasks && !outputs)
    ts_deck_error(d, s, "data.columns has %d labels for %d tasks", n, n_tasks);
  for (int32_t k = 0; n && (outputs || n == n_tasks) && k < n_tasks; k++) {
    const ts_task_config *task = &c->model.tasks[k];
    const ts_column_config *x = ts_column_given_label(c, k);
    const char *label = ts_task_label(task);
    if (ts_task_is_of_items(task)) continue;
    if (!x || (n > 1 && strcmp(x->name, label) != 0))
      ts_deck_error(d, s,
                    "data.columns has no column of kind \"label\" for task "
                    "\"%.80s\"",
                    label);
    else if (!fits(task, x->label))
      ts_deck_error(d, s,
                    "data.columns: \"%.80s\": label = \"%s\" is not for task "
                    "\"%.80s\": loss bce takes \"binary\" and \"soft\" labels, "
                    "poisson \"count\", softmax_cross_entropy \"class\", mse, "
                    "mae and huber \"real\", \"count\" and \"soft\"",
                    x->name, x->label, task->name);
  }
}

/* Lists of data.csv that name columns. */
static void check_csv(ts_deck *d, const config_setting_t *root) {
  const ts_config *c = d->config;
  const ts_strings *names = &c->data.csv.sparse, *lists = &c->data.csv.lists;
  int32_t n_lists = 0;
  ts_feature_columns m;
  if (ts_feature_columns_create(&m, c) != TS_OK) return;
  const int32_t n_features = m.n;
  ts_feature_columns_reset(&m);
  for (int32_t i = 0; i < lists->n; i++)
    n_lists += is_feature(c, lists->item[i]) || is_in(names, lists->item[i]);
  if (names->n && names->n != n_features)
    ts_deck_error(d, ts_deck_at(root, "data.csv.sparse"),
                  "data.csv.sparse lists %d columns for %d features", names->n,
                  n_features);
  if (*c->data.csv.list_separator && n_lists < lists->n)
    ts_deck_error(d, ts_deck_at(root, "data.csv.lists"),
                  "data.csv.lists names %d columns, of which %d are features",
                  lists->n, n_lists);
}

void ts_columns_check(ts_deck *d, const config_setting_t *root) {
  const ts_config *c = d->config;
  const config_setting_t *list = ts_deck_at(root, "data.columns");
  const ts_source_ops *format = ts_source_find(c->data.format);
  check_csv(d, root);
  if (!c->data.n_columns) return;
  if (format && format->no_files)
    ts_deck_error(d, list, "data.columns: data of format %s has no columns",
                  format->format);
  for (int32_t i = 0; i < c->data.n_columns; i++) {
    const config_setting_t *s = setting_of(list, i);
    const ts_column_config *x = &c->data.columns[i];
    if (!x->name || !ts_deck_at(s, "kind")) {
      ts_deck_error(d, s, "data.columns: a column has no %s",
                    x->name ? "kind" : "name");
      return;
    }
    check_keys(d, s, x);
    check_numbers(d, s, x);
    check_group(d, s, i);
    check_name(d, s, i);
  }
  check_twice(d, list);
  check_features(d, list);
  check_labels(d, list);
  if (count(c, TS_COLUMN_WEIGHT) > 1)
    ts_deck_error(d, list, "data.columns has two columns of kind \"weight\"");
  const int32_t n_dense = ts_column_n_dense(c);
  if (n_dense && !c->data.csv.dense.n && n_dense != c->model.dense_features)
    ts_deck_error(d, list,
                  "data.columns has %d columns of kind \"dense\", "
                  "model.dense_features = %d",
                  n_dense, c->model.dense_features);
}
