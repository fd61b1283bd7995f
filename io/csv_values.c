/* csv_values.c - what the columns of data.columns are made of: a field as it
 * is, several together, a part of a date and time; and what becomes of it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "io/columns.h"
#include "io/csv_impl.h"

static const ts_field nothing = {"", 0};

/* Between the words of a cross: fields have none at their ends. */
static const char between[] = "\t";

/* ---- words --------------------------------------------------------------- */

static ts_field part_of(ts_csv *s, int column, ts_time_part part,
                        char text[32]) {
  const ts_field *f = ts_csv_field(s, column);
  if (ts_csv_is_missing(s, f)) return nothing;
  const int64_t x = ts_time_read(f->text, f->n_bytes, part);
  if (x < 0)
    ts_csv_wrong(s, column,
                 "a field is no date and time with "
                 "that part");
  if (x < 0) return nothing;
  return (ts_field){text, (size_t)snprintf(text, 32, "%lld", (long long)x)};
}

/* Missing fields are empty in it; where all are, the word is missing. */
static ts_field crossed(ts_csv *s, ts_csv_ids *x) {
  bool any = false;
  x->text.n_bytes = 0;
  for (int32_t i = 0; i < x->n_cross; i++) {
    const ts_field *f = ts_csv_field(s, x->cross[i]);
    const bool missing = ts_csv_is_missing(s, f);
    any |= !missing;
    if (i && ts_str_append(&x->text, between) != TS_OK) s->failed = true;
    if (!missing && ts_str_append_bytes(&x->text, f->text, f->n_bytes) != TS_OK)
      s->failed = true;
  }
  return any && !s->failed ? (ts_field){x->text.text, x->text.n_bytes}
                           : nothing;
}

static ts_field made(ts_csv *s, int32_t feature) {
  ts_csv_ids *x = &s->ids[feature];
  if (x->n_cross) return crossed(s, x);
  if (x->part) return part_of(s, s->sparse[feature], x->part, x->number);
  return *ts_csv_field(s, s->sparse[feature]);
}

ts_field ts_csv_word_of(const ts_csv *s, int32_t feature, ts_field f) {
  static const char missing[] = "(missing)";
  if (!s->ids[feature].missing_word || !ts_csv_is_missing(s, &f)) return f;
  return (ts_field){missing, sizeof missing - 1};
}

ts_field ts_csv_word(ts_csv *s, int32_t feature) {
  return ts_csv_word_of(s, feature, made(s, feature));
}

int64_t ts_csv_whole_id(const ts_csv *s, int32_t feature, int64_t x,
                        int64_t rows) {
  if (s->ids[feature].encoding != TS_CSV_MODULO || rows == TS_ROWS_DYNAMIC)
    return x;
  return x % rows < 0 ? x % rows + rows : x % rows;
}

int64_t ts_csv_number_id(ts_csv *s, int32_t feature, const ts_field *f,
                         int64_t rows) {
  bool minus;
  uint64_t x;
  if (!ts_str_whole(f->text, f->n_bytes, &minus, &x)) {
    ts_csv_wrong(s, s->sparse[feature], "an id is no whole number");
    return 0;
  }
  if (rows == TS_ROWS_DYNAMIC) return (int64_t)(minus ? 0 - x : x);
  if (s->ids[feature].encoding == TS_CSV_MODULO) {
    x %= (uint64_t)rows;
    return (int64_t)(minus && x ? (uint64_t)rows - x : x);
  }
  return x > INT64_MAX ? INT64_MAX : minus ? -(int64_t)x : (int64_t)x;
}

/* ---- numbers ------------------------------------------------------------- */

bool ts_csv_dense(ts_csv *s, int32_t i, double *x) {
  char text[32];
  ts_field part;
  if (s->table && !s->parts[i] && ts_csv_table_number(s, s->dense[i], x) &&
      isfinite(*x))
    return true;
  const ts_field *f = ts_csv_field(s, s->dense[i]);
  if (s->parts[i]) {
    part = part_of(s, s->dense[i], s->parts[i], text);
    f = &part;
  }
  if (ts_csv_is_missing(s, f)) return false;
  if (!ts_csv_number(f, x)) {
    ts_csv_wrong(s, s->dense[i], "a numeric field is no number");
    return false;
  }
  return true;
}

float ts_csv_weight(ts_csv *s) {
  double x;
  if (s->weight < 0) return 1;
  if (ts_csv_number_in(s, s->weight, &x) && x >= 0) return (float)x;
  ts_csv_wrong(s, s->weight, "a sample's weight is no number from 0 on");
  return 0;
}

/* ---- from the deck ------------------------------------------------------- */

static ts_csv_encoding encoding_of(const char *word) {
  if (!strcmp(word, "vocabulary")) return TS_CSV_VOCABULARY;
  if (!strcmp(word, "modulo")) return TS_CSV_MODULO;
  if (!strcmp(word, "bucketise")) return TS_CSV_BUCKET;
  return strcmp(word, "none") ? TS_CSV_HASH : TS_CSV_NUMBER;
}

static void set_ids(ts_csv *s, int32_t k) {
  const ts_config *c = s->base.config;
  const ts_column_config x = ts_column_of_feature(c, k);
  ts_csv_ids *ids = &s->ids[k];
  ids->encoding = encoding_of(x.encoding);
  ids->part = ts_time_part_of(x.part);
  ids->input = ts_scales_of_feature(s->base.scales, k);
  ids->missing_word = !strcmp(x.missing, "word");
  ids->start = TS_FNV_START ^ (x.seed ? ts_mix64((uint64_t)x.seed) : 0);
  ts_csv_bags *bags = &s->bags[k];
  bags->separator = *x.list_separator;
  bags->is_list = bags->separator != '\0';
  bags->weighted = ts_feature_table(c, k, NULL)->weighted;
  bags->numbers = ts_csv_is_number(ids);
  bags->max_length = x.max_length;
  bags->newest = !strcmp(x.truncate, "oldest");
}

/* A field has weights for all tables of its column. */
static ts_err find_weights(ts_csv *s) {
  ts_feature_columns m;
  TS_DO(ts_feature_columns_create(&m, s->base.config));
  for (int32_t k = 0; k < s->n_features; k++)
    s->bags[m.first[k]].has_weights |= s->bags[k].weighted;
  for (int32_t k = 0; k < s->n_features; k++)
    s->bags[k].has_weights = s->bags[m.first[k]].has_weights;
  ts_feature_columns_reset(&m);
  return TS_OK;
}

/* Times are read as they are: neither hashed nor numbered as words. */
static ts_err check_times(const ts_csv *s) {
  const ts_config *c = s->base.config;
  const int32_t k = ts_feature_of_times(c);
  const char *name;
  if (k < 0 || s->ids[k].encoding == TS_CSV_NUMBER) return TS_OK;
  (void)ts_feature_table(c, k, &name);
  return ts_fail(TS_ERR_DECK,
                 "%s: times: \"%s\" has to be numbers as they are: give it "
                 "encoding = \"none\" in data.columns",
                 c->deck_path, name);
}

ts_err ts_csv_values_create(ts_csv *s) {
  TS_DO(ts_mem_many(s->ids, s->n_features, INPUT));
  TS_DO(ts_mem_many(s->dense, ts_scales_count(s->base.scales), INPUT));
  TS_DO(ts_mem_many(s->parts, ts_scales_count(s->base.scales), INPUT));
  for (int32_t k = 0; k < s->n_features; k++) set_ids(s, k);
  TS_DO(check_times(s));
  TS_DO(find_weights(s));
  for (int32_t d = 0; d < s->n_dense; d++)
    s->parts[d] = ts_time_part_of(ts_column_of_dense(s->base.config, d).part);
  return TS_OK;
}

void ts_csv_values_free(ts_csv *s) {
  for (int32_t k = 0; s->ids && k < s->n_features; k++) {
    ts_mem_free(s->ids[k].cross);
    ts_str_reset(&s->ids[k].text);
  }
  ts_mem_free_all(s->ids, s->dense, s->parts);
}
