/* columns.c - what the deck says of the input's columns. */
#include "io/columns.h"

#include <math.h>
#include <string.h>

#include "base/dense_columns.h"
#include "base/mem.h"
#include "base/tasks.h"
#include "io/batch_store.h"

static int32_t count(const ts_config *c, ts_column_kind kind) {
  int32_t n = 0;
  for (int32_t i = 0; i < c->data.n_columns; i++)
    n += ts_column_kind_of(c, &c->data.columns[i]) == kind;
  return n;
}

/* The K-th of its kind. */
static const ts_column_config *at(const ts_config *c, ts_column_kind kind,
                                  int32_t k) {
  for (int32_t i = 0; i < c->data.n_columns; i++)
    if (ts_column_kind_of(c, &c->data.columns[i]) == kind && k-- == 0)
      return &c->data.columns[i];
  return NULL;
}

static const ts_column_config *find(const ts_config *c, ts_column_kind kind,
                                    const char *name) {
  for (int32_t i = 0; i < c->data.n_columns; i++)
    if (!strcmp(c->data.columns[i].name, name) &&
        ts_column_kind_of(c, &c->data.columns[i]) == kind)
      return &c->data.columns[i];
  return NULL;
}

static bool is_in(const ts_strings *list, const char *a) {
  for (int32_t i = 0; i < list->n; i++)
    if (!strcmp(list->item[i], a)) return true;
  return false;
}

/* GIVEN, its from filled in, or one of NAME. */
static ts_column_config filled(const ts_column_config *given,
                               ts_column_kind kind, const char *name) {
  ts_column_config x = {.name = (char *)name,
                        .kind = kind,
                        .from = "",
                        .encoding = "",
                        .list_separator = "",
                        .min_count = 1,
                        .transform = "",
                        .min = NAN,
                        .max = NAN,
                        .part = "",
                        .missing = "unknown",
                        .label = "binary",
                        .group = "",
                        .truncate = "newest"};
  if (given) x = *given;
  if (!*x.from) x.from = (char *)name;
  return x;
}

/* A list gives the columns in the order of the features. */
static char *csv_column(const ts_config *c, int32_t f, const char *feature) {
  const ts_strings *names = &c->data.csv.sparse;
  if (!names->n || is_in(names, feature)) return (char *)feature;
  const int32_t k = ts_feature_column(c, f, names->n);
  return k < names->n ? names->item[k] : (char *)feature;
}

ts_column_config ts_column_of_feature(const ts_config *c, int32_t f) {
  const char *name;
  const ts_strings *lists = &c->data.csv.lists;
  (void)ts_feature_table(c, f, &name);
  const ts_column_config *given = find(c, TS_COLUMN_IDS, name);
  ts_column_config x = filled(given, TS_COLUMN_IDS, name);
  if (!given) {
    x.from = csv_column(c, f, name);
    if (!lists->n || is_in(lists, name) || is_in(lists, x.from))
      x.list_separator = c->data.csv.list_separator;
  }
  if (!*x.encoding && *x.part) x.encoding = "none";
  if (!*x.encoding) x.encoding = c->data.csv.encoding;
  return x;
}

const char *ts_column_encoding(const ts_config *c, int32_t f,
                               const char *usual) {
  const char *name;
  (void)ts_feature_table(c, f, &name);
  const ts_column_config *given = find(c, TS_COLUMN_IDS, name);
  return given && *given->encoding ? given->encoding : usual;
}

bool ts_columns_have_ids(const ts_config *c) {
  return count(c, TS_COLUMN_IDS) > 0;
}

int32_t ts_column_n_dense(const ts_config *c) {
  const int32_t n = count(c, TS_COLUMN_DENSE);
  return n ? n : c->data.csv.dense.n;
}

ts_column_config ts_column_of_dense(const ts_config *c, int32_t i) {
  const ts_column_config *given = at(c, TS_COLUMN_DENSE, i);
  ts_column_config x = filled(given, TS_COLUMN_DENSE,
                              given ? given->name : c->data.csv.dense.item[i]);
  if (!*x.transform) x.transform = c->data.csv.dense_transform;
  return x;
}

const char *ts_column_transform(const ts_config *c, int32_t i,
                                const char *usual) {
  const ts_column_config *given = at(c, TS_COLUMN_DENSE, i);
  if (!usual) return ts_column_of_dense(c, i).transform;
  return given && *given->transform ? given->transform : usual;
}

int32_t ts_column_n_labels(const ts_config *c) {
  const int32_t n = count(c, TS_COLUMN_LABEL);
  if (c->model.has_outputs) return c->model.n_tasks;
  if (n) return n;
  return c->data.csv.labels.n ? c->data.csv.labels.n : 1;
}

const ts_column_config *ts_column_given_label(const ts_config *c, int32_t k) {
  const ts_column_config *given = NULL;
  if (k < c->model.n_tasks)
    given = find(c, TS_COLUMN_LABEL, ts_task_label(&c->model.tasks[k]));
  if (c->model.has_outputs &&
      (c->model.n_tasks > 1 || count(c, TS_COLUMN_LABEL) > 1))
    return given;
  return given ? given : at(c, TS_COLUMN_LABEL, k);
}

/* An output's that data.columns does not list: its loss says what it is. */
static ts_column_config label_of_output(const ts_config *c, int32_t k) {
  const ts_task_config *x = &c->model.tasks[k];
  const char *name = ts_task_label(x);
  const bool usual = !strcmp(name, "label");
  ts_column_config y =
      filled(NULL, TS_COLUMN_LABEL, usual ? c->data.csv.label : name);
  if (!ts_task_is_binary(x))
    y.label = !strcmp(x->loss, "poisson") ? "count"
              : ts_task_is_of_classes(x)  ? "class"
                                          : "real";
  return y;
}

ts_column_config ts_column_of_label(const ts_config *c, int32_t k) {
  const ts_strings *names = &c->data.csv.labels;
  const ts_column_config *given = ts_column_given_label(c, k);
  if (!given && c->model.has_outputs) return label_of_output(c, k);
  return filled(given, TS_COLUMN_LABEL,
                given          ? given->name
                : k < names->n ? names->item[k]
                               : c->data.csv.label);
}

int32_t ts_column_first_label(const ts_config *c, int32_t k) {
  const ts_task_config *x = c->model.tasks;
  int32_t first = 0;
  while (strcmp(ts_task_label(&x[first]), ts_task_label(&x[k])) != 0) first++;
  return first;
}

const char *ts_column_where(const ts_config *c, int32_t k) {
  const ts_task_config *x = &c->model.tasks[k];
  return ts_task_has_where(x) ? ts_column_from(c, x->where) : NULL;
}

const char *ts_column_weight(const ts_config *c) {
  const ts_column_config *given = at(c, TS_COLUMN_WEIGHT, 0);
  return given ? filled(given, TS_COLUMN_WEIGHT, given->name).from : NULL;
}

const char *ts_column_from(const ts_config *c, const char *name) {
  for (int32_t i = 0; i < c->data.n_columns; i++)
    if (!strcmp(c->data.columns[i].name, name) && *c->data.columns[i].from)
      return c->data.columns[i].from;
  return name;
}

ts_err ts_column_keys(ts_strings *names, const ts_config *c) {
  const int32_t n = count(c, TS_COLUMN_KEY);
  *names = (ts_strings){0};
  TS_DO(ts_mem_many(names->item, n, MISC));
  for (names->n = 0; names->n < n; names->n++)
    names->item[names->n] = at(c, TS_COLUMN_KEY, names->n)->name;
  return TS_OK;
}

ts_err ts_columns_of_numbers(const ts_config *c, const char *format) {
  for (int32_t i = 0; i < c->data.n_columns; i++) {
    const ts_column_config *x = &c->data.columns[i];
    const char *key = NULL;
    if (*x->list_separator) key = "list_separator";
    if (x->cross.n) key = "cross";
    if (*x->part) key = "part";
    if (!strcmp(x->missing, "word")) key = "missing";
    if (key)
      return ts_fail(TS_ERR_DECK,
                     "data.columns: column \"%s\" has %s, which data of "
                     "format %s can't be read with",
                     x->name, key, format);
  }
  return TS_OK;
}
