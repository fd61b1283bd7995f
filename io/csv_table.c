/* csv_table.c - files of columns in place of CSV's text: what a cell says where
 * a field is asked for. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "io/columns.h"
#include "io/csv_impl.h"

ts_err ts_csv_table_header(ts_csv *s) {
  const int n = s->n_fields = ts_columnar_n_columns(s->table);
  TS_DO(ts_mem_many(s->fields, n + 1, INPUT));
  TS_DO(ts_mem_many(s->header, n + 1, INPUT));
  TS_DO(ts_mem_many(s->names, n, INPUT));
  TS_DO(ts_mem_many(s->rooms, n, INPUT));
  for (int i = 0; i < n; i++) {
    const char *name = ts_columnar_name(s->table, i);
    s->header[i] = (ts_field){name, strlen(name)};
  }
  s->header[n] = s->fields[n] = (ts_field){"", 0};
  ts_csv_names_sort(s->names, s->header, n);
  return TS_OK;
}

/* ---- what columns are ---------------------------------------------------- */

static ts_err no_list(const ts_csv *s, const char *file, int column,
                      const char *of) {
  bool weighted;
  if (column < 0 || column == s->n_fields ||
      !ts_columnar_is_list(s->table, column, &weighted))
    return TS_OK;
  return ts_fail(TS_ERR_DATA, "%s: column \"%s\" has lists, and is to be %s",
                 file, ts_columnar_name(s->table, column), of);
}

/* A column of lists is a bag, whatever the deck says of separators. */
static ts_err check_feature(ts_csv *s, const char *file, int32_t k) {
  const ts_csv_ids *ids = &s->ids[k];
  ts_csv_bags *bags = &s->bags[k];
  const int at = s->sparse[k];
  bool weighted;
  for (int32_t i = 0; i < ids->n_cross; i++)
    TS_DO(no_list(s, file, ids->cross[i], "a part of a cross"));
  if (ids->part) TS_DO(no_list(s, file, at, "a date and time"));
  if (ids->input >= 0) TS_DO(no_list(s, file, at, "a number"));
  if (at == s->n_fields || !ts_columnar_is_list(s->table, at, &weighted))
    return TS_OK;
  bags->is_list = true;
  if (weighted && !bags->has_weights)
    return ts_fail(
        TS_ERR_DATA,
        "%s: column \"%s\" has weights beside its ids, which a table "
        "with weighted = true takes",
        file, ts_columnar_name(s->table, at));
  return TS_OK;
}

/* One word of a column, or numbers that are rows. */
static bool is_quick(const ts_csv *s, int32_t k) {
  const ts_csv_ids *ids = &s->ids[k];
  const ts_csv_bags *bags = &s->bags[k];
  if (ids->n_cross || ids->part || ids->input >= 0 ||
      s->sparse[k] == s->n_fields)
    return false;
  return !ts_csv_has_bags(bags) || (bags->numbers && !bags->has_weights &&
                                    !bags->max_length && !s->missing_number);
}

ts_err ts_csv_table_check(ts_csv *s, const char *file) {
  for (int32_t k = 0; k < s->base.info.n_tasks; k++) {
    TS_DO(no_list(s, file, s->label[k], "a label"));
    TS_DO(no_list(s, file, s->where[k], "0 or 1"));
  }
  TS_DO(no_list(s, file, s->weight, "a sample's weight"));
  for (int32_t d = 0; d < s->n_dense; d++)
    TS_DO(no_list(s, file, s->dense[d], "a number"));
  TS_DO(ts_mem_many(s->quick, s->n_features, INPUT));
  TS_DO(ts_mem_many(s->filled, s->n_features + s->n_dense, INPUT));
  ts_columnar_memos(s->table, s->n_features);
  for (int32_t k = 0; k < s->n_features; k++) {
    TS_DO(check_feature(s, file, k));
    s->quick[k] = is_quick(s, k);
  }
  s->base.anywhere = s->base.split == TS_SPLIT_TRAIN &&
                     !strcmp(s->base.config->data.shuffle, "full");
  return TS_OK;
}

/* ---- cells --------------------------------------------------------------- */

const ts_field *ts_csv_table_field(ts_csv *s, int column) {
  ts_field *f = &s->fields[column];
  int64_t i;
  if (column == s->n_fields) return f;
  const ts_cells *c = ts_columnar_cell(s->table, column, &i);
  *f = (ts_field){"", 0};
  if (c && c->kind != TS_CELLS_LIST)
    f->text = ts_cells_text(c, i, &f->n_bytes, s->rooms[column]);
  return f;
}

/* A number may stand for a missing one: then its text is compared, too. */
bool ts_csv_table_number(const ts_csv *s, int column, double *x) {
  int64_t i;
  if (column == s->n_fields || s->missing_number) return false;
  const ts_cells *c = ts_columnar_cell(s->table, column, &i);
  return c && ts_cells_number(c, i, x);
}

/* A whole number that is a row as it is has no need of a text. */
static void take_whole(const ts_csv *s, int32_t feature, const ts_cells *c,
                       int64_t i, ts_csv_items *x) {
  x->is_whole = ts_csv_is_number(&s->ids[feature]) && !s->missing_number &&
                ts_cells_whole(c, i, &x->whole);
}

bool ts_csv_table_items(ts_csv *s, int32_t feature, ts_csv_items *x) {
  const int column = s->sparse[feature];
  int64_t i;
  if (column == s->n_fields) return false;
  const ts_cells *c = ts_columnar_cell(s->table, column, &i);
  if (!c || s->ids[feature].n_cross || s->ids[feature].part) return false;
  if (c->kind == TS_CELLS_LIST) {
    ts_cells_items(c, i, &x->at, &x->end);
    if (x->at == x->end) return false;
  } else {
    take_whole(s, feature, c, i, x);
    if (!x->is_whole) return false;
    x->at = x->end = 0;
  }
  x->list = c;
  return true;
}

/* The next of a list: missing ones are left out. */
static bool next_of_list(const ts_csv *s, int32_t feature, ts_csv_items *x,
                         ts_field *item, float *weight) {
  while (x->at < x->end) {
    int64_t i = x->at++, at = i;
    double w;
    if (ts_cells_lacks_pair(x->list, at)) continue;
    const ts_cells *c = ts_cells_of(x->list->items, &i);
    if (!c) continue;
    take_whole(s, feature, c, i, x);
    item->text = "";
    item->n_bytes = 0;
    if (!x->is_whole) {
      item->text = ts_cells_text(c, i, &item->n_bytes, x->room);
      if (ts_csv_is_missing(s, item)) continue;
    }
    *weight = 1;
    if (!x->list->weights || !s->bags[feature].has_weights) return true;
    c = ts_cells_of(x->list->weights, &at);
    *weight = c && ts_cells_number(c, at, &w) && isfinite(w) ? (float)w : NAN;
    return true;
  }
  return false;
}

bool ts_csv_table_item(const ts_csv *s, int32_t feature, ts_csv_items *x,
                       ts_field *item, float *weight) {
  if (x->list->kind == TS_CELLS_LIST)
    return next_of_list(s, feature, x, item, weight);
  *item = (ts_field){"", 0};
  *weight = 1;
  return x->at++ == 0; /* one number */
}
