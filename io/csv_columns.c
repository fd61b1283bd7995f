/* csv_columns.c - the deck's columns in the header of CSV. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/tasks.h"
#include "io/columns.h"
#include "io/csv_impl.h"

/* What stands between the fields of a header that seems to have one only;
 * '\0': nothing is known. */
static char other_separator(const ts_csv *s, const char *header) {
  for (const char *c = ",;\t|"; *c && s->n_fields == 1; c++)
    if (strchr(header, *c)) return *c;
  return '\0';
}

static bool is_data(const ts_csv *s) {
  double x;
  for (int i = 0; i < s->n_fields; i++)
    if (ts_csv_number(&s->header[i], &x)) return true;
  return false;
}

/* The column whose name is most like NAME; "": none is. */
static void nearest(char near[64], const ts_csv *s, const char *name) {
  char column[64];
  int least = 3;
  *near = '\0';
  for (int i = 0; i < s->n_fields; i++) {
    const ts_field *f = &s->header[i];
    if (f->n_bytes >= sizeof column) continue;
    memcpy(column, f->text, f->n_bytes);
    column[f->n_bytes] = '\0';
    const int distance = ts_str_distance(column, name);
    if (distance >= least || (size_t)distance >= f->n_bytes) continue;
    least = distance;
    memcpy(near, column, f->n_bytes + 1);
  }
}

static ts_err no_column(const ts_csv *s, const char *file, const char *name) {
  char near[64];
  nearest(near, s, name);
  if (s->table)
    return ts_fail(TS_ERR_DATA, "%s: has no column \"%s\"%s%s%s", file, name,
                   *near ? "; did you mean \"" : "", near, *near ? "\"?" : "");
  const char *header = ts_text_header(s->text);
  const char other[2] = {other_separator(s, header)};
  if (*other)
    return ts_fail(TS_ERR_DATA,
                   "%s: one column by data.csv.separator = \"%s\"; between its "
                   "fields seems to be data.csv.separator = \"%s\": %.200s",
                   file, s->base.config->data.csv.separator,
                   *other == '\t' ? "tab" : other, header);
  if (is_data(s))
    return ts_fail(TS_ERR_DATA,
                   "%s: the first line looks like data, and is to be a header "
                   "with the columns' names, \"%s\" among them: %.200s",
                   file, name, header);
  return ts_fail(
      TS_ERR_DATA, "%s: the header has no column \"%s\"%s%s%s: %.200s", file,
      name, *near ? "; did you mean \"" : "", near, *near ? "\"?" : "", header);
}

/* The column of NAME; where the header has none, -1. */
static ts_err find_column(int *to, const ts_csv *s, const char *file,
                          const char *name) {
  int n_same;
  *to = ts_csv_names_find(s->names, s->n_fields, name, &n_same);
  if (*to >= 0 && s->table) TS_DO(ts_columnar_want(s->table, *to));
  if (n_same < 2) return TS_OK;
  return ts_fail(TS_ERR_DATA,
                 "%s: the header has %d columns \"%s\": which of them is "
                 "meant can't be told",
                 file, n_same, name);
}

static ts_err need_column(int *to, const ts_csv *s, const char *file,
                          const char *name) {
  TS_DO(find_column(to, s, file, name));
  return *to >= 0 ? TS_OK : no_column(s, file, name);
}

/* The same, of feature K (n_features: a dense number); data.items may lack it:
 * the field is empty then, behind those of the line. */
static ts_err seek_column(int *to, ts_csv *s, const char *file,
                          const char *name, int32_t k) {
  if (!s->base.lacks) return need_column(to, s, file, name);
  TS_DO(find_column(to, s, file, name));
  if (*to >= 0) return TS_OK;
  s->base.lacks[k] = true;
  *to = s->n_fields;
  return TS_OK;
}

static ts_err split_header(ts_csv *s) {
  const char *header = ts_text_header(s->text), *end = header + strlen(header);
  s->n_fields = ts_csv_split(NULL, 0, header, end, s->separator);
  if (s->n_fields < 1)
    return ts_fail(TS_ERR_DATA, "the header can't be read: %.200s", header);
  TS_DO(ts_mem_many(s->fields, s->n_fields + 1, INPUT)); /* seek_column */
  TS_DO(ts_mem_many(s->header, s->n_fields + 1, INPUT));
  s->header[s->n_fields] = s->fields[s->n_fields] = (ts_field){"", 0};
  TS_DO(ts_mem_many(s->names, s->n_fields, INPUT));
  (void)ts_csv_split(s->header, s->n_fields, header, end, s->separator);
  ts_csv_names_sort(s->names, s->header, s->n_fields);
  return TS_OK;
}

/* A label's column, or what says which of them count: where some are absent, as
 * they may be to predict, all of the labels are. */
static ts_err find_label(int *to, ts_csv *s, const char *file,
                         const char *name) {
  TS_DO(find_column(to, s, file, name));
  if (*to < 0 && !ts_split_is_unlabelled(s->base.split))
    return no_column(s, file, name);
  s->base.info.unlabelled |= *to < 0;
  return TS_OK;
}

static ts_err find_labels(ts_csv *s, const char *file) {
  static const char *const words[] = {"binary", "soft", "count", "real",
                                      "class"};
  const ts_config *c = s->base.config;
  for (int32_t k = 0; k < s->base.info.n_tasks; k++) {
    const ts_column_config x = ts_column_of_label(c, k);
    const char *where = k < c->model.n_tasks ? ts_column_where(c, k) : NULL;
    for (int i = TS_CSV_BINARY; i <= TS_CSV_CLASS; i++)
      if (!strcmp(x.label, words[i])) s->label_kind[k] = (ts_csv_label_kind)i;
    s->where[k] = s->label[k] = -1;
    if (k < c->model.n_tasks && ts_task_is_of_items(&c->model.tasks[k]))
      continue; /* it has none */
    TS_DO(find_label(&s->label[k], s, file, x.from));
    if (where) TS_DO(find_label(&s->where[k], s, file, where));
  }
  return TS_OK;
}

/* One column, or those of a cross. */
static ts_err find_feature(ts_csv *s, const char *file, int32_t k) {
  const ts_column_config x = ts_column_of_feature(s->base.config, k);
  ts_csv_ids *ids = &s->ids[k];
  if (!x.cross.n) {
    TS_DO(seek_column(&s->sparse[k], s, file, x.from, k));
    if (ids->input >= 0) s->dense[ids->input] = s->sparse[k];
    return TS_OK;
  }
  TS_DO(ts_mem_many(ids->cross, x.cross.n, INPUT));
  for (int32_t i = 0; i < x.cross.n; i++)
    TS_DO(seek_column(&ids->cross[i], s, file, x.cross.item[i], k));
  ids->n_cross = x.cross.n;
  s->sparse[k] = ids->cross[0];
  return TS_OK;
}

/* To predict weights count for nothing. */
static ts_err find_weight(ts_csv *s, const char *file) {
  const char *name = ts_column_weight(s->base.config);
  s->weight = -1;
  if (!name || ts_split_is_unlabelled(s->base.split)) return TS_OK;
  return need_column(&s->weight, s, file, name);
}

ts_err ts_csv_columns(ts_csv *s, const char *file) {
  const ts_config *c = s->base.config;
  TS_DO(s->table ? ts_csv_table_header(s) : split_header(s));
  if (s->base.split == TS_SPLIT_ITEMS)
    TS_DO(ts_mem_many(s->base.lacks, s->n_features + 1, INPUT));
  TS_DO(find_labels(s, file));
  TS_DO(find_weight(s, file));
  for (int32_t d = 0; d < s->n_dense; d++)
    TS_DO(seek_column(&s->dense[d], s, file, ts_column_of_dense(c, d).from,
                      s->n_features));
  for (int32_t k = 0; k < s->n_features; k++) TS_DO(find_feature(s, file, k));
  return s->table ? ts_csv_table_check(s, file) : TS_OK;
}
