/* csv_columns.c - the deck's columns in the header of CSV. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "io/csv_impl.h"

static int find_column(const ts_csv *s, const char *name) {
  for (int i = 0; i < s->n_fields; i++)
    if (strlen(name) == s->header[i].n_bytes &&
        !memcmp(name, s->header[i].text, s->header[i].n_bytes))
      return i;
  return -1;
}

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
  char near[64];
  nearest(near, s, name);
  return ts_fail(
      TS_ERR_DATA, "%s: the header has no column \"%s\"%s%s%s: %.200s", file,
      name, *near ? "; did you mean \"" : "", near, *near ? "\"?" : "", header);
}

static ts_err need_column(int *to, const ts_csv *s, const char *file,
                          const char *name) {
  *to = find_column(s, name);
  return *to >= 0 ? TS_OK : no_column(s, file, name);
}

static ts_err split_header(ts_csv *s) {
  const char *header = ts_text_header(s->text);
  s->n_fields = ts_csv_split(s->fields, TS_CSV_FIELDS, header,
                             header + strlen(header), s->separator);
  if (s->n_fields < 1 || s->n_fields > TS_CSV_FIELDS)
    return ts_fail(TS_ERR_DATA, "the header can't be read: %.200s", header);
  TS_DO(ts_mem_many(s->header, s->n_fields, INPUT));
  memcpy(s->header, s->fields, (size_t)s->n_fields * sizeof *s->header);
  return TS_OK;
}

/* The labels' columns: where some are absent, as they may be to predict, all of
 * the labels are. */
static ts_err find_labels(ts_csv *s, const char *file) {
  const ts_config *c = s->base.config;
  for (int32_t k = 0; k < s->base.info.n_tasks; k++) {
    const char *name =
        c->data.csv.labels.n ? c->data.csv.labels.item[k] : c->data.csv.label;
    s->label[k] = find_column(s, name);
    if (s->label[k] < 0 && s->base.split != TS_SPLIT_PREDICT)
      return no_column(s, file, name);
    s->base.info.unlabelled |= s->label[k] < 0;
  }
  return TS_OK;
}

static bool is_in(const ts_strings *list, const char *a, const char *b) {
  for (int32_t i = 0; i < list->n; i++)
    if (!strcmp(list->item[i], a) || !strcmp(list->item[i], b)) return true;
  return false;
}

static ts_err find_feature(ts_csv *s, const char *file, int32_t k) {
  const ts_config *c = s->base.config;
  const ts_strings *names = &c->data.csv.sparse, *lists = &c->data.csv.lists;
  const char *feature;
  const ts_table_config *t = ts_feature_table(c, k, &feature);
  /* A list gives the columns in the order of the features. */
  const char *name =
      names->n && find_column(s, feature) < 0 ? names->item[k] : feature;
  s->bags[k].is_list =
      s->list_separator && (!lists->n || is_in(lists, feature, name));
  s->bags[k].weighted = t->weighted;
  return need_column(&s->sparse[k], s, file, name);
}

ts_err ts_csv_columns(ts_csv *s, const char *file) {
  const ts_config *c = s->base.config;
  const ts_strings *names = &c->data.csv.sparse, *lists = &c->data.csv.lists;
  int32_t n_lists = 0;
  TS_DO(split_header(s));
  if (names->n && names->n != s->n_features)
    return ts_fail(TS_ERR_DECK,
                   "data.csv.sparse lists %d columns for %d features", names->n,
                   s->n_features);
  TS_DO(find_labels(s, file));
  for (int32_t d = 0; d < s->n_dense; d++)
    TS_DO(need_column(&s->dense[d], s, file, c->data.csv.dense.item[d]));
  for (int32_t k = 0; k < s->n_features; k++) {
    TS_DO(find_feature(s, file, k));
    n_lists += s->bags[k].is_list;
  }
  if (s->list_separator && lists->n && n_lists < lists->n)
    return ts_fail(TS_ERR_DECK,
                   "data.csv.lists names %d columns, of which %d are features",
                   lists->n, n_lists);
  return TS_OK;
}
