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

float ts_csv_label(const ts_csv *s, int32_t task) {
  const ts_config *c = s->base.config;
  if (s->label[task] < 0) return NAN;
  const ts_field *f = &s->fields[s->label[task]];
  double x;
  if (s->base.split == TS_SPLIT_PREDICT && ts_csv_is_missing(s, f)) return NAN;
  if (s->is_soft[task])
    return ts_csv_number(f, &x) && x >= 0 && x <= 1 ? (float)x : -1.0f;
  for (int32_t i = 0; i < c->data.csv.label_true.n; i++)
    if (is_text(f, c->data.csv.label_true.item[i])) return 1;
  if (c->data.csv.label_true.n) return f->n_bytes ? 0.0f : -1.0f;
  if (!ts_csv_number(f, &x)) return -1;
  if (!isnan(c->data.csv.label_threshold))
    return x >= c->data.csv.label_threshold;
  return x == 0 || x == 1 ? (float)x : -1.0f;
}

static int at_most(size_t n, int limit) {
  return n < (size_t)limit ? (int)n : limit;
}

void ts_csv_wrong(ts_csv *s, int column, const char *what) {
  const ts_field *name = &s->header[column], *f = &s->fields[column];
  if (*s->why) return; /* the first is said */
  snprintf(s->why, sizeof s->why, "column \"%.*s\": %s: \"%.*s\"",
           at_most(name->n_bytes, 60), name->text, what,
           at_most(f->n_bytes, 60), f->text);
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

bool ts_csv_item(const ts_csv *s, int32_t feature, ts_field *rest,
                 ts_field *item, float *weight) {
  const ts_csv_bags *bags = &s->bags[feature];
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
