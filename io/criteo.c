/* criteo.c - Criteo's click logs as they are: label, 13 integers, 26 hex ids,
 * separated by tabs; nothing between two tabs means missing.
 *
 * dense: missing -> 0, else log(max(x, 0) + 1); ids: the hex number modulo
 * the table's rows (or its hash), missing like 0.  Fields missing at the end
 * of a line read as missing and are counted.  The scanner takes one byte at
 * a time only where it must: hex ids come eight digits at once. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "io/batch_store.h"
#include "io/columns.h"
#include "io/dataset_write.h"
#include "io/keys.h"
#include "io/text.h"

enum { N_DENSE = 13, N_SPARSE = 26, LOG_TABLE = 65536 };

typedef struct ts_criteo {
  ts_source base;
  ts_text *text;
  int32_t n_dense, n_features;
  int32_t column[N_SPARSE]; /* feature of each column, -1: not wanted */
  int32_t number[N_DENSE];  /* (n_dense) the columns of the dense inputs */
  bool hashed[N_SPARSE];
  uint64_t start[N_SPARSE]; /* of the hash */
  uint32_t rows[N_SPARSE];  /* 0: over 2^32 - 1, which takes all ids */
  float *log1p;             /* (LOG_TABLE) */
} ts_criteo;

/* A line of digits, tabs and hex: label first. */
static bool probe(const char *path) {
  char line[4096];
  FILE *f = fopen(path, "r");
  bool good = f && fgets(line, sizeof line, f) &&
              (line[0] == '0' || line[0] == '1') && line[1] == '\t';
  int tabs = 0;
  for (const char *p = line; good && *p; p++) tabs += *p == '\t';
  if (f) fclose(f);
  return (good && tabs >= N_DENSE) ||
         (ts_str_ends(path, ".gz") && strstr(path, "tsv"));
}

/* ---- one line ------------------------------------------------------------ */

typedef struct ts_criteo_row {
  float label;
  float dense[N_DENSE];
  uint32_t id[N_SPARSE];
  bool is_short;
} ts_criteo_row;

/* Eight hex digits at P, as a number; *GOOD is cleared when one is none. */
static uint32_t hex8(const char *p, bool *good) {
  const uint64_t ones = UINT64_C(0x0101010101010101);
  uint64_t x;
  memcpy(&x, p, 8);
  const uint64_t letter = x >> 6 & ones, low = x & 15 * ones;
  const uint64_t digit = low + letter * 9;
  /* '0'..'9' are 0x30..0x39; letters have bit 6, and 1..6 below. */
  const uint64_t over9 = (low + 6 * ones) >> 4 & ones;
  const uint64_t over0 = (low + 15 * ones) >> 4 & ones;
  const uint64_t over6 = (low + 9 * ones) >> 4 & ones;
  const uint64_t is_digit = x >> 5 & x >> 4 & ones & ~letter & ~over9;
  const uint64_t is_letter = letter & over0 & ~over6 & ~(x >> 4);
  *good &= (is_digit | is_letter) == ones && (x & 0x80 * ones) == 0;
  uint64_t v = __builtin_bswap64(digit);
  v = (v | v >> 4) & UINT64_C(0x00ff00ff00ff00ff);
  v = (v | v >> 8) & UINT64_C(0x0000ffff0000ffff);
  v = v | v >> 16;
  return (uint32_t)v;
}

/* Any number of hex digits up to the tab. */
static const char *take_hex(const char *p, const char *end, uint32_t *id,
                            bool *good) {
  if (end - p > 8 && p[8] == '\t') {
    *id = hex8(p, good);
    if (*good) return p + 8;
    *good = true; /* looked at again, digit by digit */
  }
  uint64_t x = 0;
  int n = 0;
  for (; p < end && *p != '\t'; p++, n++) {
    const char c = *p;
    const int d = c >= '0' && c <= '9'   ? c - '0'
                  : c >= 'a' && c <= 'f' ? c - 'a' + 10
                  : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                         : -1;
    if (d < 0) {
      *good = false;
      return p;
    }
    x = x << 4 | (uint64_t)d;
  }
  if (n > 8) *good = false;
  *id = (uint32_t)x;
  return p;
}

static const char *take_integer(const ts_criteo *s, const char *p,
                                const char *end, float *to, bool *good) {
  const bool minus = p < end && *p == '-';
  uint64_t x = 0;
  const char *digits = p += minus;
  for (; p < end && (unsigned char)(*p - '0') < 10; p++)
    x = x * 10 + (uint64_t)(*p - '0');
  const bool some = p > digits;
  if ((p < end && *p != '\t') || (minus && !some) || p - digits > 18)
    *good = false;
  if (minus) x = 0;
  *to = x < LOG_TABLE ? s->log1p[x] : (float)log1p((double)x);
  return p;
}

/* NULL when it is a record, else what is wrong with it. */
static const char *parse_line(const ts_criteo *s, ts_criteo_row *r,
                              const char *p, const char *end) {
  bool good = true;
  if (p >= end || (*p != '0' && *p != '1') || (p + 1 < end && p[1] != '\t'))
    return "the label is neither 0 nor 1";
  r->label = (float)(*p - '0');
  p++;
  for (int i = 0; i < N_DENSE; i++) {
    r->dense[i] = 0;
    if (p < end) p = take_integer(s, p + 1, end, &r->dense[i], &good);
  }
  if (!good) return "a dense field is no integer";
  for (int i = 0; i < N_SPARSE; i++) {
    r->id[i] = 0;
    r->is_short = p >= end;
    if (p < end) p = take_hex(p + 1, end, &r->id[i], &good);
  }
  if (!good) return "a categorical field is no hex number";
  return p < end ? "it has more than 40 fields" : NULL;
}

/* ---- a batch ------------------------------------------------------------- */

static int64_t row_of(const ts_criteo *s, int k, uint32_t id) {
  if (s->hashed[k])
    id = (uint32_t)(ts_mix64((id + UINT64_C(0x9e3779b97f4a7c15)) ^
                             s->start[k]) >>
                    32);
  return s->rows[k] ? id % s->rows[k] : id;
}

static void store_row(const ts_criteo *s, ts_batch_store *b, int32_t i,
                      const ts_criteo_row *r) {
  b->labels[i] = r->label;
  float *dense = b->dense + (int64_t)i * s->n_dense;
  for (int32_t d = 0; d < s->n_dense; d++) dense[d] = r->dense[s->number[d]];
  for (int k = 0; k < N_SPARSE; k++)
    if (s->column[k] >= 0)
      b->feature[s->column[k]].ids[i] = row_of(s, k, r->id[k]);
}

/* A record that can't be read: an error, or a sample without weight. */
static ts_err bad_record(ts_criteo *s, ts_batch_store *b, int32_t i,
                         const ts_lines *lines, int32_t at, const char *why) {
  const ts_config *c = s->base.config;
  if (c->data.on_bad_record == TS_ON_BAD_STOP ||
      s->base.n_bad_records >= c->data.max_bad)
    return ts_fail(TS_ERR_DATA, "%s:%lld: %s%s", lines->path,
                   (long long)(lines->number + at), why,
                   c->data.on_bad_record == TS_ON_BAD_STOP
                       ? "; data.on_bad_record = \"skip\" leaves such "
                         "records out"
                       : " (data.max_bad is reached)");
  const ts_criteo_row none = {0};
  store_row(s, b, i, &none);
  b->weights[i] = 0;
  s->base.n_bad_records++;
  b->batch.n_bad++;
  return TS_OK;
}

static ts_err read_lines(ts_criteo *s, ts_batch_store *b, int32_t i, int32_t n,
                         const ts_lines *lines) {
  const char *p = lines->begin;
  for (int32_t k = 0; k < n; k++) {
    ts_criteo_row r;
    const char *end = memchr(p, '\n', (size_t)(lines->end - p));
    const char *stop = end ? end : lines->end;
    if (stop > p && stop[-1] == '\r') stop--;
    const char *why = parse_line(s, &r, p, stop);
    if (why) {
      TS_DO(bad_record(s, b, i + k, lines, k, why));
    } else {
      s->base.n_short += r.is_short;
      store_row(s, b, i + k, &r);
    }
    p = end ? end + 1 : lines->end;
  }
  return TS_OK;
}

/* Samples [first, first + n) to places from I on. */
static ts_err fill(ts_criteo *s, ts_batch_store *b, int32_t i, int64_t first,
                   int32_t n) {
  for (const int32_t end = i + n; i < end;) {
    ts_lines lines;
    int32_t here = end - i;
    TS_DO(ts_text_lines(s->text, &lines, first, &here));
    TS_DO(read_lines(s, b, i, here, &lines));
    first += here;
    i += here;
  }
  return TS_OK;
}

static ts_err begin_batch(ts_source *src, ts_batch_store *b, int32_t n) {
  const ts_criteo *s = (const ts_criteo *)src;
  TS_DO(ts_batch_store_begin(b, n, 1, s->n_dense, src->info.has_weights));
  for (int32_t f = 0; f < s->n_features; f++)
    TS_DO(ts_batch_store_feature(b, f, n, TS_BAGS_ONE, false));
  return TS_OK;
}

static ts_err read_batch(ts_source *src, ts_batch_store *b, int64_t first,
                         int32_t n) {
  TS_DO(begin_batch(src, b, n));
  TS_DO(fill((ts_criteo *)src, b, 0, first, n));
  TS_DO(ts_batch_store_empty_bad(b));
  return ts_batch_store_end(b);
}

static ts_err gather(ts_source *src, ts_batch_store *b, const int64_t *samples,
                     int32_t n) {
  TS_DO(begin_batch(src, b, n));
  for (int32_t i = 0; i < n; i++)
    TS_DO(fill((ts_criteo *)src, b, i, samples[i], 1));
  TS_DO(ts_batch_store_empty_bad(b));
  return ts_batch_store_end(b);
}

/* ---- opening ------------------------------------------------------------- */

/* The number of a column that is called SIGN and a number up to MOST; 0: it is
 * not. */
static int numbered(const char *name, char sign, int most) {
  const int k = *name == sign ? atoi(name + 1) : 0;
  return k >= 1 && k <= most ? k : 0;
}

/* The dense inputs: all 13, or those that the deck lists. */
static ts_err map_numbers(ts_criteo *s) {
  const ts_config *c = s->base.config;
  const bool listed = c->data.n_columns && ts_column_n_dense(c);
  if (!listed && s->n_dense != 0 && s->n_dense != N_DENSE)
    return ts_fail(TS_ERR_DECK,
                   "model.dense_features = %d; Criteo logs have "
                   "13 (or leave them out with 0)",
                   s->n_dense);
  for (int32_t d = 0; d < s->n_dense; d++) {
    const char *from = listed ? ts_column_of_dense(c, d).from : NULL;
    s->number[d] = listed ? numbered(from, 'I', N_DENSE) - 1 : d;
    if (s->number[d] < 0)
      return ts_fail(TS_ERR_DECK,
                     "data.columns: \"%s\" is no number of Criteo's logs; "
                     "these are I1 to I13",
                     from);
  }
  return TS_OK;
}

/* What the log has no column for. */
static ts_err refuse_columns(const ts_config *c) {
  TS_DO(ts_columns_of_numbers(c, "criteo_tsv"));
  const char *label = ts_column_of_label(c, 0).from;
  if (ts_column_weight(c))
    return ts_fail(TS_ERR_DECK,
                   "data.columns: Criteo logs have no weights of samples");
  if (c->data.n_columns && strcmp(label, "label") != 0 &&
      strcmp(label, c->data.csv.label) != 0)
    return ts_fail(TS_ERR_DECK,
                   "data.columns: \"%s\" is no label of Criteo's logs, which "
                   "is called \"label\"",
                   label);
  return TS_OK;
}

/* Features are the columns of their name C1 .. C26 or of the deck's from, else
 * in order. */
static ts_err map_columns(ts_criteo *s) {
  const ts_config *c = s->base.config;
  bool named = true;
  for (int k = 0; k < N_SPARSE; k++) s->column[k] = -1;
  for (int32_t f = 0; f < s->n_features; f++) {
    const char *name;
    (void)ts_feature_table(c, f, &name);
    named &= numbered(ts_column_from(c, name), 'C', N_SPARSE) > 0;
  }
  if (s->n_features > N_SPARSE)
    return ts_fail(TS_ERR_DECK,
                   "Criteo logs have 26 categorical columns, the "
                   "deck has %d features",
                   s->n_features);
  for (int32_t f = 0; f < s->n_features; f++) {
    const char *name;
    const ts_table_config *t = ts_feature_table(c, f, &name);
    const ts_column_config x = ts_column_of_feature(c, f);
    const char *from = ts_column_from(c, name);
    const int k = named ? numbered(from, 'C', N_SPARSE) - 1 : f;
    if (s->column[k] >= 0)
      return ts_fail(TS_ERR_DECK, "two features name column C%d, one as %s",
                     k + 1, name);
    s->column[k] = f;
    const char *encoding = ts_column_encoding(c, f, c->data.categorical);
    s->hashed[k] = !strcmp(encoding, "hash");
    s->start[k] = x.seed ? ts_mix64((uint64_t)x.seed) : 0;
    if (!strcmp(encoding, "none") || (ts_columns_have_ids(c) && !named))
      return ts_fail(TS_ERR_DECK,
                     "data.columns: feature %s takes C1 to C26 of Criteo's "
                     "logs, encoding \"modulo\" or \"hash\"; it has \"%s\", "
                     "\"%s\"",
                     name, from, encoding);
    s->rows[k] = t->rows > UINT32_MAX ? 0 : (uint32_t)t->rows;
    if (t->weighted)
      return ts_fail(TS_ERR_DECK,
                     "table %s is weighted; Criteo logs have no "
                     "weights",
                     t->name);
  }
  return map_numbers(s);
}

static void close_source(ts_source *src) {
  ts_criteo *s = (ts_criteo *)src;
  if (!s) return;
  ts_text_close(s->text);
  ts_mem_free_all(s->log1p, s);
}

extern const ts_source_ops ts_source_criteo_tsv;

static ts_err open_source(ts_source **out, const ts_config *c, ts_split split,
                          const char *state, const ts_strings *paths,
                          ts_comm *comm) {
  ts_err err = TS_OK;
  ts_criteo *s = NULL;
  (void)state;
  TS_TRY(ts_mem_alloc(&s, sizeof *s, TS_TAG_INPUT));
  s->base =
      (ts_source){.ops = &ts_source_criteo_tsv, .config = c, .split = split};
  s->n_dense = c->model.dense_features;
  s->n_features = ts_feature_count(c);
  TS_TRY(ts_mem_many(s->log1p, LOG_TABLE, INPUT));
  for (int i = 0; i < LOG_TABLE; i++) s->log1p[i] = (float)log1p(i);
  TS_TRY(ts_agree(comm, refuse_columns(c)));
  TS_TRY(ts_agree(comm, map_columns(s)));
  TS_TRY(ts_text_open(&s->text, paths, '\0', c->run.output, comm));
  s->base.info =
      (ts_source_info){.n_samples = ts_text_n_lines(s->text),
                       .n_dense = s->n_dense,
                       .n_tasks = 1,
                       .n_features = s->n_features,
                       .bytes = ts_text_bytes(s->text),
                       .packed = ts_text_packed(s->text),
                       .has_weights = c->data.on_bad_record == TS_ON_BAD_DROP,
                       .bayes_logloss = NAN,
                       .bayes_auc = NAN};
  *out = &s->base;
done:
  if (err != TS_OK) close_source((ts_source *)s);
  return err;
}

const ts_source_ops ts_source_criteo_tsv = {.format = "criteo_tsv",
                                            .probe = probe,
                                            .open = open_source,
                                            .close = close_source,
                                            .read = read_batch,
                                            .gather = gather,
                                            .write = ts_criteo_write,
                                            .keys = ts_keys_of_criteo};
