/* inputs.c - ids, words and numbers as they are given, on their way into the
 * model: what the readers of the training data make of them (io/csv_cells.c,
 * io/criteo.c, io/dataset_columns.c). */
#include "serve/inputs.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"

/* An id, as it is given: a text, or a number where that is NULL. */
typedef struct ts_given {
  const char *text;
  size_t n_bytes;
  int64_t number;
  char digits[24]; /* of a number that has to be a text */
} ts_given;

enum { NO_ID = -1, BAD_ID = -2 };

/* ---- one id -------------------------------------------------------------- */

static bool is_missing(const ts_config *c, const ts_given *g) {
  if (!g->text) return false;
  if (!g->n_bytes) return true;
  for (int32_t i = 0; i < c->data.csv.missing.n; i++)
    if (!strcmp(g->text, c->data.csv.missing.item[i])) return true;
  return false;
}

static void as_text(ts_given *g) {
  if (g->text) return;
  g->n_bytes = (size_t)snprintf(g->digits, sizeof g->digits, "%lld",
                                (long long)g->number);
  g->text = g->digits;
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

/* A whole number of 64 bits, in BASE. */
static bool is_number(const ts_given *g, int base, int64_t *x) {
  char *end;
  *x = g->number;
  if (!g->text) return true;
  errno = 0;
  *x = strtoll(g->text, &end, base);
  return end != g->text && !*end && !errno;
}

static int64_t modulo(int64_t x, int64_t rows) {
  return x % rows + (x % rows < 0 ? rows : 0);
}

static int64_t bucket_of(const ts_serve_state *s, const ts_serve_feature *x,
                         const ts_given *g) {
  char *end = NULL;
  double number = (double)g->number;
  if (g->text && is_missing(s->config, g)) number = NAN;
  if (g->text && !isnan(number)) {
    number = strtod(g->text, &end);
    if (end == g->text || *end) return BAD_ID;
  }
  return ts_scales_bucket(s->scales, x->input, number);
}

static int64_t csv_row(const ts_serve_state *s, const ts_serve_feature *x,
                       ts_given *g) {
  static const char word[] = "(missing)";
  int64_t number;
  bool missing = is_missing(s->config, g);
  if (missing && x->missing_word) {
    g->text = word;
    g->n_bytes = sizeof word - 1;
    missing = false;
  }
  if (missing && x->missing_none) return NO_ID;
  switch (x->encoding) {
  case TS_SERVE_HASH:
    as_text(g);
    return (int64_t)(ts_mix64(ts_fnv1a(x->start, g->text, g->n_bytes)) %
                     (uint64_t)x->table->rows);
  case TS_SERVE_WORDS:
    as_text(g);
    return missing ? 0 : row_of_word(x, g->text);
  default:
    if (!is_number(g, 10, &number)) return BAD_ID;
    return x->encoding == TS_SERVE_MODULO ? modulo(number, x->table->rows)
                                          : number;
  }
}

static int64_t criteo_row(const ts_serve_feature *x, const ts_given *g) {
  const uint64_t step = UINT64_C(0x9e3779b97f4a7c15);
  int64_t number = 0;
  char hex[24];
  const bool there = !g->text || g->n_bytes;
  if (there && !is_number(g, 16, &number)) return BAD_ID;
  uint32_t id = (uint32_t)number;
  if (x->encoding == TS_SERVE_WORDS) {
    snprintf(hex, sizeof hex, "%08x", id);
    return there ? row_of_word(x, hex) : 0;
  }
  if (x->encoding == TS_SERVE_HASH)
    id = (uint32_t)(ts_mix64((id + step) ^ x->start) >> 32);
  return x->encoding == TS_SERVE_PLAIN ? id : (int64_t)(id % x->table->rows);
}

static int64_t number_row(const ts_serve_feature *x, ts_given *g) {
  const uint64_t step = UINT64_C(0x9e3779b97f4a7c15);
  int64_t number;
  if (x->encoding == TS_SERVE_WORDS) {
    as_text(g);
    return row_of_word(x, g->text);
  }
  if (!is_number(g, 10, &number)) return BAD_ID;
  if (x->encoding == TS_SERVE_HASH)
    return (int64_t)(ts_mix64(((uint64_t)number + step) ^ x->start) %
                     (uint64_t)x->table->rows);
  return x->encoding == TS_SERVE_MODULO ? modulo(number, x->table->rows)
                                        : number;
}

static int64_t row_of(const ts_serve_state *s, const ts_serve_feature *x,
                      ts_given *g) {
  if (x->encoding == TS_SERVE_BUCKET) return bucket_of(s, x, g);
  if (s->rules == TS_SERVE_CSV) return csv_row(s, x, g);
  return s->rules == TS_SERVE_CRITEO ? criteo_row(x, g) : number_row(x, g);
}

/* ---- bags ---------------------------------------------------------------- */

void ts_serve_bags_reset(ts_serve_bags *b) {
  ts_mem_free_all(b->rows, b->weights, b->offsets);
  *b = (ts_serve_bags){0};
}

static ts_err bad(const ts_serve_feature *x, const tserve_bags *in, int64_t k,
                  int64_t row) {
  const ts_table_config *t = x->table;
  if (in->words)
    return ts_fail(TS_ERR_DATA,
                   "feature %s: \"%.80s\", id %lld of the batch, is no row of "
                   "table %s, which has %lld",
                   x->name, in->words[k], (long long)k, t->name,
                   (long long)t->rows);
  return ts_fail(TS_ERR_DATA,
                 "feature %s: id %lld of the batch is %lld: no row of table "
                 "%s, which has %lld",
                 x->name, (long long)k,
                 (long long)(row == BAD_ID ? in->ids[k] : row), t->name,
                 (long long)t->rows);
}

/* The last (or first) so many of the bag that ends with all there are stay; the
 * mask has room behind them. */
static void cut(ts_serve_bags *b, int64_t from, const ts_serve_feature *x) {
  const int64_t n = b->n_ids - from, most = x->max_length - (x->mask >= 0);
  if (!x->max_length || n <= most) return;
  if (x->newest || x->mask >= 0) {
    memmove(b->rows + from, b->rows + b->n_ids - most, (size_t)most * 8);
    if (b->weights)
      memmove(b->weights + from, b->weights + b->n_ids - most,
              (size_t)most * 4);
  }
  b->n_ids = from + most;
}

/* Ids [from, to) of IN are the next bag. */
static ts_err add_bag(ts_serve_bags *b, const ts_serve_state *s,
                      const ts_serve_feature *x, const tserve_bags *in,
                      int64_t from, int64_t to) {
  const int64_t begin = b->n_ids, rows = x->table->rows;
  const bool drops = s->config->data.on_bad_id != TS_ON_BAD_STOP;
  for (int64_t k = from; k < to; k++) {
    ts_given g = {.number = in->words ? 0 : in->ids[k]};
    if (in->words && !in->words[k])
      return ts_fail(TS_ERR_DATA, "feature %s: word %lld is NULL", x->name,
                     (long long)k);
    if (in->words) g.text = in->words[k], g.n_bytes = strlen(g.text);
    const int64_t row = row_of(s, x, &g);
    if (row == NO_ID) continue;
    if (row < 0 || (row >= rows && !x->is_times)) {
      if (!drops) return bad(x, in, k, row);
      continue;
    }
    b->rows[b->n_ids] = row;
    if (b->weights) b->weights[b->n_ids] = in->weights ? in->weights[k] : 1;
    b->n_ids++;
  }
  cut(b, begin, x);
  if (x->mask >= 0) {
    if (b->weights) b->weights[b->n_ids] = 1;
    b->rows[b->n_ids++] = x->mask;
  }
  for (int64_t k = begin; x->position && k < b->n_ids; k++) {
    const int64_t most = x->table->max_length - 1, at = k - begin;
    b->weights[k] = x->position[at < most ? at : most];
  }
  return TS_OK;
}

/* The ids of samples [first, first + n) are [*from, *to) of IN. */
static ts_err find_ids(const ts_serve_feature *x, const tserve_bags *in,
                       int64_t first, int64_t n, int64_t *from, int64_t *to) {
  const int64_t *at = in->offsets;
  *from = first;
  *to = first + n;
  for (int64_t i = 0; at && i <= n; i++)
    if (at[first + i] < 0 || at[first + i] > in->n_ids ||
        (i && at[first + i] < at[first + i - 1]))
      return ts_fail(TS_ERR_DATA,
                     "feature %s: offsets[%lld] does not rise, or is beyond "
                     "n_ids",
                     x->name, (long long)(first + i));
  if (at) *from = at[first], *to = at[first + n];
  if (*to <= in->n_ids && (in->ids || in->words || *from == *to)) return TS_OK;
  return ts_fail(TS_ERR_DATA, "feature %s: has %lld ids, and there are %lld",
                 x->name, (long long)*to,
                 (long long)(in->ids || in->words ? in->n_ids : 0));
}

ts_err ts_serve_bags_take(ts_serve_bags *b, const ts_serve_state *s, int32_t f,
                          const tserve_bags *in, int64_t first, int64_t n) {
  const ts_serve_feature *x = &s->feature[f];
  int64_t from = 0, to = 0;
  const bool none = !in->n_ids && !in->offsets;
  const int64_t all[2] = {0, in->n_ids};
  tserve_bags own = *in;
  if (in->same && !in->offsets) own.offsets = all;
  if (in->same) first = 0, n = 1;
  if (!none) TS_DO(find_ids(x, &own, first, n, &from, &to));
  const int64_t most = to - from + n + 1; /* masks among them */
  TS_DO(ts_mem_reserve(&b->rows, &b->room[0], (size_t)most * 8, TS_TAG_INPUT));
  TS_DO(ts_mem_reserve(&b->offsets, &b->room[2], (size_t)(n + 1) * 8,
                       TS_TAG_INPUT));
  if (x->table->weighted || x->position)
    TS_DO(ts_mem_reserve(&b->weights, &b->room[1], (size_t)most * 4,
                         TS_TAG_INPUT));
  b->n = n;
  b->n_ids = 0;
  b->ones = true;
  b->offsets[0] = 0;
  for (int64_t i = 0; i < n; i++) {
    const int64_t *at = own.offsets ? own.offsets + first + i : NULL;
    const int64_t begin = at ? at[0] : first + i;
    TS_DO(add_bag(b, s, x, &own, begin, none ? begin : at ? at[1] : begin + 1));
    b->offsets[i + 1] = b->n_ids;
    b->ones = b->ones && b->n_ids == i + 1;
  }
  return TS_OK;
}

/* ---- dense numbers ------------------------------------------------------- */

void ts_serve_dense_take(float *out, const ts_serve_state *s,
                         const tserve_batch *in, int64_t first, int64_t n) {
  const int32_t columns = s->config->model.dense_features;
  for (int64_t i = 0; i < n; i++, out += s->dense_width) {
    const float *x = in->dense + (in->same_dense ? 0 : (first + i) * columns);
    for (int32_t d = 0; d < columns; d++) {
      if (s->scales)
        ts_scales_put(s->scales, d, x[d], out);
      else if (s->rules == TS_SERVE_CRITEO)
        out[d] = x[d] > 0 ? (float)log1p((double)x[d]) : 0;
      else
        out[d] = x[d];
    }
  }
}
