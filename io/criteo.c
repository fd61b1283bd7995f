/* criteo.c - Criteo's click logs as they are: label, 13 integers, 26 hex ids,
 * separated by tabs; nothing between two tabs means missing.
 *
 * dense: missing -> 0, else log(max(x, 0) + 1), or as the columns' transforms
 * say (io/scales.h); ids: the hex number modulo
 * the table's rows (or its hash), missing like 0.  Fields missing at the end
 * of a line read as missing and are counted.  The scanner takes one byte at
 * a time only where it must: hex ids come eight digits at once. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/dense_columns.h"
#include "base/hash.h"
#include "base/mem.h"
#include "io/columns.h"
#include "io/criteo_impl.h"
#include "io/dataset_write.h"
#include "io/keys.h"

enum { LOG_TABLE = 65536 };

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
  int64_t number[N_DENSE];      /* INT64_MIN: missing */
  uint32_t id[N_SPARSE], there; /* a bit for each that is not missing */
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

static const char *take_integer(const char *p, const char *end, int64_t *to,
                                bool *good) {
  const bool minus = p < end && *p == '-';
  uint64_t x = 0;
  const char *digits = p += minus;
  for (; p < end && (unsigned char)(*p - '0') < 10; p++)
    x = x * 10 + (uint64_t)(*p - '0');
  const bool some = p > digits;
  if ((p < end && *p != '\t') || (minus && !some) || p - digits > 18)
    *good = false;
  *to = some ? (int64_t)(minus ? -x : x) : INT64_MIN;
  return p;
}

/* NULL when it is a record, else what is wrong with it. */
static const char *parse_line(ts_criteo_row *r, const char *p,
                              const char *end) {
  bool good = true;
  if (p >= end || (*p != '0' && *p != '1') || (p + 1 < end && p[1] != '\t'))
    return "the label is neither 0 nor 1";
  r->label = (float)(*p - '0');
  r->there = 0;
  p++;
  for (int i = 0; i < N_DENSE; i++) {
    r->number[i] = INT64_MIN;
    if (p < end) p = take_integer(p + 1, end, &r->number[i], &good);
  }
  if (!good) return "a dense field is no integer";
  for (int i = 0; i < N_SPARSE; i++) {
    const char *from = p < end ? p + 1 : p;
    r->id[i] = 0;
    r->is_short = p >= end;
    if (p < end) p = take_hex(from, end, &r->id[i], &good);
    r->there |= (uint32_t)(p > from) << i;
  }
  if (!good) return "a categorical field is no hex number";
  return p < end ? "it has more than 40 fields" : NULL;
}

/* ---- a batch ------------------------------------------------------------- */

/* Input K of the scales. */
static double input_of(const ts_criteo *s, const ts_criteo_row *r, int32_t k) {
  const int64_t x = r->number[s->number[k]];
  return x == INT64_MIN ? NAN : (double)x;
}

static int64_t row_of(const ts_criteo *s, int32_t f, const ts_criteo_row *r) {
  const ts_criteo_ids *ids = &s->ids[f];
  if (ids->input >= 0)
    return ts_scales_bucket(s->base.scales, ids->input,
                            input_of(s, r, ids->input));
  uint32_t id = r->id[ids->column];
  if (ids->words) {
    const int64_t x = r->there >> ids->column & 1 ? (int64_t)id : -1;
    return s->base.learning ? x
                            : ts_vocabularies_row_of_number(
                                  s->base.vocabularies, f, x, true);
  }
  if (ids->hashed)
    id =
        (uint32_t)(ts_mix64((id + UINT64_C(0x9e3779b97f4a7c15)) ^ ids->start) >>
                   32);
  return ids->rows ? id % ids->rows : id;
}

/* Of what is missing, or less than 0, that of 0. */
static float log_of(const ts_criteo *s, int64_t x) {
  x = x > 0 ? x : 0;
  return x < LOG_TABLE ? s->log1p[x] : (float)log1p((double)x);
}

static void store_row(const ts_criteo *s, ts_batch_store *b, int32_t i,
                      const ts_criteo_row *r) {
  const ts_scales *scales = s->base.scales;
  b->labels[i] = r->label;
  float *dense = b->dense + (int64_t)i * b->batch.n_dense;
  for (int32_t d = 0; !scales && d < s->n_dense; d++)
    dense[d] = log_of(s, r->number[s->number[d]]);
  for (int32_t d = 0; scales && !s->base.learning && d < s->n_dense; d++)
    ts_scales_put(scales, d, input_of(s, r, d), dense);
  for (int32_t f = 0; f < s->n_features; f++)
    if (!ts_batch_store_is_same(b, f)) b->feature[f].ids[i] = row_of(s, f, r);
}

static ts_err learn_row(const ts_criteo *s, int64_t sample,
                        const ts_criteo_row *r) {
  for (int32_t k = 0; k < ts_scales_count(s->base.scales); k++)
    TS_DO(ts_scales_learn(s->base.scales, k, sample, input_of(s, r, k)));
  return TS_OK;
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
  ts_criteo_row none = {0};
  for (int d = 0; d < N_DENSE; d++) none.number[d] = INT64_MIN;
  store_row(s, b, i, &none);
  b->weights[i] = 0;
  s->base.n_bad_records++;
  b->batch.n_bad++;
  return TS_OK;
}

/* N samples from FIRST on to places from I on. */
static ts_err read_lines(ts_criteo *s, ts_batch_store *b, int32_t i, int32_t n,
                         int64_t first, const ts_lines *lines) {
  const char *p = lines->begin;
  for (int32_t k = 0; k < n; k++) {
    ts_criteo_row r;
    const char *end = memchr(p, '\n', (size_t)(lines->end - p));
    const char *stop = end ? end : lines->end;
    if (stop > p && stop[-1] == '\r') stop--;
    const char *why = parse_line(&r, p, stop);
    if (why) {
      TS_DO(bad_record(s, b, i + k, lines, k, why));
    } else {
      s->base.n_short += r.is_short;
      store_row(s, b, i + k, &r);
      if (s->base.learning) TS_DO(learn_row(s, first + k, &r));
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
    TS_DO(read_lines(s, b, i, here, first, &lines));
    first += here;
    i += here;
  }
  return TS_OK;
}

static ts_err begin_batch(ts_source *src, ts_batch_store *b, int32_t n) {
  const ts_criteo *s = (const ts_criteo *)src;
  TS_DO(ts_batch_store_begin(b, n, 1, ts_dense_width(src->config),
                             src->info.has_weights));
  for (int32_t f = 0; f < s->n_features; f++)
    if (!ts_batch_store_is_same(b, f))
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

static void close_source(ts_source *src) {
  ts_criteo *s = (ts_criteo *)src;
  if (!s) return;
  ts_text_close(s->text);
  ts_source_free_learnt(&s->base);
  ts_mem_free_all(s->ids, s->number, s->log1p, s);
}

static ts_err learn(ts_source *s, const uint64_t *kept, ts_comm *comm) {
  return ts_source_learn_numbers(s, kept, true, comm);
}

static ts_err needs(ts_source *s, ts_need *out, bool sample) {
  ts_words words;
  (void)sample;
  for (int32_t k = 0; k < s->info.n_features; k++) {
    out[k].rows = ts_source_words(s, k, &words) ? words.n + 1
                                                : ts_scales_rows(s->scales, k);
    if (!out[k].rows)
      out[k].why = "ids that are hashed, or modulo the rows, fit any number of "
                   "them";
  }
  return TS_OK;
}

extern const ts_source_ops ts_source_criteo_tsv;

static ts_err open_source(ts_source **out, const ts_config *c, ts_split split,
                          const char *state, const ts_strings *paths,
                          ts_comm *comm) {
  ts_err err = TS_OK;
  ts_criteo *s = NULL;
  TS_TRY(ts_mem_alloc(&s, sizeof *s, TS_TAG_INPUT));
  s->base =
      (ts_source){.ops = &ts_source_criteo_tsv, .config = c, .split = split};
  s->n_dense = c->model.dense_features;
  s->n_features = ts_feature_count(c);
  TS_TRY(ts_mem_many(s->ids, s->n_features, INPUT));
  TS_TRY(ts_mem_many(s->log1p, LOG_TABLE, INPUT));
  for (int i = 0; i < LOG_TABLE; i++) s->log1p[i] = (float)log1p(i);
  TS_TRY(ts_agree(comm,
                  ts_source_take_learnt(&s->base, "modulo", "log1p", state)));
  TS_TRY(ts_agree(comm, ts_criteo_columns(s)));
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
                                            .needs = needs,
                                            .learn = learn,
                                            .state_save = ts_source_save_learnt,
                                            .read = read_batch,
                                            .gather = gather,
                                            .write = ts_criteo_write,
                                            .keys = ts_keys_of_criteo};
