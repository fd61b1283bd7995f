/* csv_cells.c - what a field of CSV says: a number, a label, an id or several.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "io/csv_impl.h"

static bool is_text(const ts_field *f, const char *text) {
  return strlen(text) == f->n_bytes && !memcmp(text, f->text, f->n_bytes);
}

bool ts_csv_is_missing(const ts_csv *s, const ts_field *f) {
  const ts_strings *missing = &s->base.config->data.csv.missing;
  if (!f->n_bytes) return true;
  if (f->n_bytes > s->missing_bytes) return false;
  for (int32_t i = 0; i < missing->n; i++)
    if (is_text(f, missing->item[i])) return true;
  return false;
}

bool ts_csv_number(const ts_field *f, double *x) {
  char text[64], *end;
  if (f->n_bytes >= sizeof text) return false;
  memcpy(text, f->text, f->n_bytes);
  text[f->n_bytes] = '\0';
  *x = strtod(text, &end);
  return end != text && !*end && isfinite(*x);
}

bool ts_csv_number_in(ts_csv *s, int column, double *x) {
  if (s->table && ts_csv_table_number(s, column, x)) return isfinite(*x);
  return ts_csv_number(ts_csv_field(s, column), x);
}

int64_t ts_csv_id(ts_csv *s, int32_t feature, const ts_field *f, int64_t rows) {
  const ts_csv_ids *x = &s->ids[feature];
  if (x->encoding == TS_CSV_HASH)
    return (int64_t)(ts_mix64(ts_fnv1a(x->start, f->text, f->n_bytes)) %
                     (uint64_t)rows);
  if (ts_csv_is_number(x)) return ts_csv_number_id(s, feature, f, rows);
  if (ts_csv_is_missing(s, f)) return 0;
  return ts_vocabularies_row(s->base.vocabularies, feature, f->text,
                             f->n_bytes);
}

static int at_most(size_t n, int limit) {
  return n < (size_t)limit ? (int)n : limit;
}

void ts_csv_wrong(ts_csv *s, int column, const char *what) {
  if (*s->why) return; /* the first is said */
  const ts_field *name = &s->header[column], *f = ts_csv_field(s, column);
  snprintf(s->why, sizeof s->why, "column \"%.*s\": %s: \"%.*s\"",
           at_most(name->n_bytes, 60), name->text, what,
           at_most(f->n_bytes, 60), f->text);
}

/* What the deck takes for 0 or 1; -1: it is neither. */
static float binary(ts_csv *s, int column) {
  const ts_config *c = s->base.config;
  double x;
  if (!c->data.csv.label_true.n) {
    if (!ts_csv_number_in(s, column, &x)) return -1;
    if (!isnan(c->data.csv.label_threshold))
      return x >= c->data.csv.label_threshold;
    return x == 0 || x == 1 ? (float)x : -1.0f;
  }
  const ts_field *f = ts_csv_field(s, column);
  for (int32_t i = 0; i < c->data.csv.label_true.n; i++)
    if (is_text(f, c->data.csv.label_true.item[i])) return 1;
  return f->n_bytes ? 0.0f : -1.0f;
}

/* What is no number is in no range. */
static bool is_label(ts_csv_label_kind kind, double x) {
  if (kind == TS_CSV_SOFT) return x >= 0 && x <= 1;
  if (kind == TS_CSV_COUNT || kind == TS_CSV_CLASS)
    return x >= 0 && x == floor(x);
  return kind == TS_CSV_REAL ? !isnan(x) : x >= 0;
}

/* Class Y, in column AT, is one of the task's, which are known once there is a
 * model. */
static bool is_class(ts_csv *s, int32_t task, int at, double y) {
  const int32_t n = s->base.config->model.tasks[task].classes;
  char text[96];
  if (!n || y < n) return true;
  snprintf(text, sizeof text,
           "the label is none of its %d classes, which are 0 to %d", n, n - 1);
  ts_csv_wrong(s, at, text);
  return false;
}

float ts_csv_label(ts_csv *s, int32_t task) {
  static const char *const wrong[] = {
      [TS_CSV_BINARY] = "the label is neither 0 nor 1",
      [TS_CSV_SOFT] = "the label is no number from 0 to 1",
      [TS_CSV_COUNT] = "the label is no count: 0, 1, 2 and so on",
      [TS_CSV_REAL] = "the label is no number",
      [TS_CSV_CLASS] = "the label is no class: 0, 1, 2 and so on"};
  const ts_csv_label_kind kind = s->label_kind[task];
  const bool predicts = ts_split_is_unlabelled(s->base.split);
  const int at = s->label[task], where = s->where[task];
  double y = NAN;
  if (where >= 0) {
    if (predicts && ts_csv_is_missing(s, ts_csv_field(s, where))) return NAN;
    const float counts = binary(s, where);
    if (counts < 0)
      ts_csv_wrong(s, where, "which samples count is neither 0 nor 1");
    if (counts <= 0) return NAN;
  }
  if (at < 0 || (predicts && ts_csv_is_missing(s, ts_csv_field(s, at))))
    return NAN;
  if (kind == TS_CSV_BINARY)
    y = (double)binary(s, at);
  else if (!ts_csv_number_in(s, at, &y) || !isfinite((float)y))
    y = NAN;
  if (!is_label(kind, y)) {
    ts_csv_wrong(s, at, wrong[kind]);
    return NAN;
  }
  return kind != TS_CSV_CLASS || is_class(s, task, at, y) ? (float)y : NAN;
}

/* "a:0.3" to "a" and 0.3. */
static float take_weight(ts_field *item) {
  const char *colon = memrchr(item->text, ':', item->n_bytes);
  double x;
  if (!colon) return 1;
  ts_field number = {colon + 1,
                     (size_t)(item->text + item->n_bytes - colon - 1)};
  item->n_bytes = (size_t)(colon - item->text);
  ts_csv_trim(&number);
  ts_csv_trim(item);
  return ts_csv_number(&number, &x) ? (float)x : NAN;
}

bool ts_csv_items_of(ts_csv *s, int32_t feature, ts_csv_items *x) {
  x->list = NULL;
  x->is_whole = false;
  if (s->table && ts_csv_table_items(s, feature, x)) return true;
  x->rest = ts_csv_word(s, feature);
  return !ts_csv_is_missing(s, &x->rest);
}

bool ts_csv_item(const ts_csv *s, int32_t feature, ts_csv_items *x,
                 ts_field *item, float *weight) {
  const ts_csv_bags *bags = &s->bags[feature];
  ts_field *rest = &x->rest;
  if (x->list) return ts_csv_table_item(s, feature, x, item, weight);
  while (rest->n_bytes) {
    const char *end = bags->is_list
                          ? memchr(rest->text, bags->separator, rest->n_bytes)
                          : NULL;
    const size_t n = end ? (size_t)(end - rest->text) : rest->n_bytes;
    *item = (ts_field){rest->text, n};
    rest->text += n + (end != NULL);
    rest->n_bytes -= n + (end != NULL);
    *weight = 1;
    ts_csv_trim(item);
    if (ts_csv_is_missing(s, item)) continue;
    if (bags->has_weights) *weight = take_weight(item);
    return true;
  }
  return false;
}
