/* ids.c - ids and words on their way to rows: what the readers of the training
 * data make of them (io/csv_cells.c and csv_values.c, io/criteo.c,
 * io/dataset_columns.c). */
#include "serve/ids.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

static const uint64_t step = UINT64_C(0x9e3779b97f4a7c15);

static void as_text(ts_given *g) {
  if (g->text) return;
  g->n_bytes = (size_t)snprintf(g->digits, sizeof g->digits, "%lld",
                                (long long)g->number);
  g->text = g->digits;
}

static bool says_missing(const ts_config *c, const char *text, size_t n) {
  const ts_strings *missing = &c->data.csv.missing;
  for (int32_t i = 0; n && i < missing->n; i++)
    if (strlen(missing->item[i]) == n && !memcmp(missing->item[i], text, n))
      return true;
  return !n;
}

bool ts_given_is_missing(const ts_config *c, ts_given *g) {
  if (!g->text && !c->data.csv.missing.n) return false;
  as_text(g);
  return says_missing(c, g->text, g->n_bytes);
}

/* The id is none. */
static int64_t no_id(ts_given *g, ts_given_is is) {
  g->is = is;
  return 0;
}

/* The row of a word, from 1 on; 0: there is none like it. */
static int64_t row_of_word(const ts_serve_feature *x, const char *word) {
  int64_t low = 0, high = x->n_words;
  while (low < high) {
    const int64_t mid = low + (high - low) / 2;
    const int order = strcmp(x->text + x->at[mid], word);
    if (!order) return mid + 1;
    if (order < 0)
      low = mid + 1;
    else
      high = mid;
  }
  return 0;
}

/* A whole number as a row: itself, or a remainder; any is an id of a dynamic
 * table. */
static int64_t row_of_number(const ts_serve_feature *x, ts_given *g) {
  const bool modulo = x->encoding == TS_SERVE_MODULO;
  const uint64_t rows = (uint64_t)ts_table_whole(x->table)->rows;
  bool minus = g->number < 0;
  uint64_t n = minus ? 0 - (uint64_t)g->number : (uint64_t)g->number;
  if (g->text && !ts_str_whole(g->text, g->n_bytes, &minus, &n))
    return no_id(g, TS_BAD_ID);
  if (ts_table_is_dynamic(x->table)) return (int64_t)(minus ? 0 - n : n);
  if (modulo) return (int64_t)(minus && n % rows ? rows - n % rows : n % rows);
  if (n > INT64_MAX) return INT64_MAX;
  return minus && n ? -1 : (int64_t)n;
}

static int64_t bucket_of(const ts_serve_state *s, const ts_serve_feature *x,
                         ts_given *g) {
  char *end;
  double number = (double)g->number;
  if (s->rules == TS_SERVE_CSV && ts_given_is_missing(s->config, g))
    return ts_scales_bucket(s->scales, x->input, NAN);
  if (g->text) {
    number = strtod(g->text, &end);
    if (end == g->text || *end || !isfinite(number) ||
        isspace((unsigned char)*g->text))
      return no_id(g, TS_BAD_ID);
  }
  return ts_scales_bucket(s->scales, x->input, number);
}

/* ---- CSV ----------------------------------------------------------------- */

/* Columns that are one word: a tab between, and missing ones empty.  False
 * where all are. */
static bool crossed(const ts_config *c, ts_given *g, ts_str *scratch) {
  bool any = false;
  scratch->n_bytes = 0;
  for (const char *p = g->text;; p++) {
    const size_t n = strcspn(p, "\t");
    const bool missing = says_missing(c, p, n);
    any |= !missing;
    if (!missing && ts_str_append_bytes(scratch, p, n) != TS_OK) return false;
    p += n;
    if (!*p) break;
    if (ts_str_append_bytes(scratch, "\t", 1) != TS_OK) return false;
  }
  if (!any) return false;
  g->text = scratch->text;
  g->n_bytes = scratch->n_bytes;
  return true;
}

/* Hashes go by ts_table_ids, as they do in training: all of them are ids of a
 * dynamic table. */
static int64_t row_of_text(const ts_serve_feature *x, const ts_given *g) {
  if (x->encoding == TS_SERVE_WORDS) return row_of_word(x, g->text);
  return (int64_t)(ts_mix64(ts_fnv1a(x->start, g->text, g->n_bytes)) %
                   (uint64_t)ts_table_ids(x->table));
}

bool ts_missing_row(const ts_serve_feature *x, int64_t *row) {
  const ts_given g = {.text = "(missing)", .n_bytes = sizeof "(missing)" - 1};
  if (x->encoding != TS_SERVE_WORDS && x->encoding != TS_SERVE_HASH)
    return false;
  *row = row_of_text(x, &g);
  return true;
}

/* Lists have no items that are missing. */
static int64_t missing_row(const ts_serve_feature *x, ts_given *g) {
  int64_t row;
  if (x->is_list) return no_id(g, TS_NO_ID);
  if (x->missing_word)
    return ts_missing_row(x, &row) ? row : no_id(g, TS_BAD_ID);
  if (x->missing_none) return no_id(g, TS_NO_ID);
  if (x->encoding == TS_SERVE_WORDS) return 0;
  return x->encoding == TS_SERVE_HASH ? row_of_text(x, g) : no_id(g, TS_BAD_ID);
}

static int64_t no_text(const ts_serve_feature *x, ts_given *g) {
  g->text = "";
  g->n_bytes = 0;
  return missing_row(x, g);
}

static int64_t csv_row(const ts_serve_state *s, const ts_serve_feature *x,
                       ts_given *g, ts_str *scratch) {
  if (x->crosses) {
    as_text(g);
    if (!crossed(s->config, g, scratch)) return no_text(x, g);
  } else if (ts_given_is_missing(s->config, g)) {
    return x->part ? no_text(x, g) : missing_row(x, g);
  }
  if (x->part) {
    as_text(g);
    g->number = ts_time_read(g->text, g->n_bytes, x->part);
    if (g->number < 0) return no_id(g, TS_BAD_ID);
    g->text = NULL;
  }
  if (x->encoding == TS_SERVE_HASH || x->encoding == TS_SERVE_WORDS) {
    as_text(g);
    return row_of_text(x, g);
  }
  return row_of_number(x, g);
}

/* ---- other formats ------------------------------------------------------- */

/* Criteo's log has numbers of 32 bits in hexadecimal digits. */
static int64_t criteo_row(const ts_serve_feature *x, ts_given *g) {
  char hex[24], *end = NULL;
  uint64_t number = (uint64_t)g->number;
  const bool there = !g->text || g->n_bytes;
  if (g->text && there) {
    number = strtoull(g->text, &end, 16);
    if (*end || !isxdigit((unsigned char)*g->text)) return no_id(g, TS_BAD_ID);
  }
  if (number > UINT32_MAX) return no_id(g, TS_BAD_ID);
  uint32_t id = (uint32_t)number;
  if (x->encoding == TS_SERVE_WORDS) {
    snprintf(hex, sizeof hex, "%08x", id);
    return there ? row_of_word(x, hex) : 0;
  }
  if (x->encoding == TS_SERVE_HASH)
    id = (uint32_t)(ts_mix64((id + step) ^ x->start) >> 32);
  const bool as_it_is =
      x->encoding == TS_SERVE_PLAIN || ts_table_is_dynamic(x->table);
  return as_it_is ? id : (int64_t)(id % ts_table_whole(x->table)->rows);
}

static int64_t number_row(const ts_serve_feature *x, ts_given *g) {
  bool minus = g->number < 0;
  uint64_t n = (uint64_t)g->number;
  if (x->encoding == TS_SERVE_WORDS) {
    as_text(g);
    return row_of_word(x, g->text);
  }
  if (x->encoding != TS_SERVE_HASH) return row_of_number(x, g);
  if (g->text && !ts_str_whole(g->text, g->n_bytes, &minus, &n))
    return no_id(g, TS_BAD_ID);
  if (g->text && minus) n = 0 - n;
  return (int64_t)(ts_mix64((n + step) ^ x->start) %
                   (uint64_t)ts_table_ids(x->table));
}

int64_t ts_given_row(const ts_serve_state *s, const ts_serve_feature *x,
                     ts_given *g, ts_str *scratch) {
  if (x->encoding == TS_SERVE_BUCKET) return bucket_of(s, x, g);
  if (s->rules == TS_SERVE_CSV) return csv_row(s, x, g, scratch);
  return s->rules == TS_SERVE_CRITEO ? criteo_row(x, g) : number_row(x, g);
}
