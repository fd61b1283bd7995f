/* csv.c - CSV with a header, by the deck's csv group.
 *
 * Numeric columns may be log1p'd and standardised (mean and deviation over
 * the training files); categorical ones are hashed, or numbered by a
 * vocabulary of the training files (sorted, from 1; 0 is for unknown and
 * missing values).  Later sources, and the checkpoint, get what was learnt from
 * the training files as a text. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "io/batch_store.h"
#include "io/csv_impl.h"

enum { FIELDS_MAX = 4096 };

static bool probe(const char *path) {
  return ts_str_ends(path, ".csv") || ts_str_ends(path, ".csv.gz");
}

/* ---- fields -------------------------------------------------------------- */

bool ts_csv_is_missing(const ts_csv *s, const ts_field *f) {
  const char *missing = s->base.config->data.csv.missing;
  return !f->n_bytes || (f->n_bytes == strlen(missing) &&
                         !memcmp(f->text, missing, f->n_bytes));
}

bool ts_csv_number(const ts_field *f, double *x) {
  char text[64], *end;
  if (f->n_bytes >= sizeof text) return false;
  memcpy(text, f->text, f->n_bytes);
  text[f->n_bytes] = '\0';
  *x = strtod(text, &end);
  return end != text && !*end && isfinite(*x);
}

double ts_csv_transform(const ts_csv *s, double x) {
  return s->log ? log1p(fmax(x, 0)) : x;
}

/* Words end at a NUL, should a field have one. */
static int compare(const char *word, const ts_field *f) {
  const size_t n = strnlen(f->text, f->n_bytes);
  const int c = strncmp(word, f->text, n);
  return c ? c : word[n] != '\0';
}

static int64_t id_of(const ts_csv *s, int32_t feature, const ts_field *f,
                     int64_t rows) {
  if (!s->vocabulary)
    return (int64_t)(ts_mix64(ts_fnv1a(TS_FNV_START, f->text, f->n_bytes)) %
                     (uint64_t)rows);
  if (ts_csv_is_missing(s, f)) return 0;
  const ts_vocabulary *v = &s->words[feature];
  int64_t low = 0, high = v->n;
  while (low < high) {
    const int64_t mid = (low + high) / 2;
    const int c = compare(v->word[mid], f);
    if (c == 0) return mid + 1;
    if (c < 0)
      low = mid + 1;
    else
      high = mid;
  }
  return 0;
}

/* 0 or 1; -1 where it is neither. */
static float label_of(const ts_csv *s, const ts_field *f) {
  const ts_config *c = s->base.config;
  double x;
  for (int32_t i = 0; i < c->data.csv.label_true.n; i++)
    if (strlen(c->data.csv.label_true.item[i]) == f->n_bytes &&
        !memcmp(c->data.csv.label_true.item[i], f->text, f->n_bytes))
      return 1;
  if (c->data.csv.label_true.n) return f->n_bytes ? 0.0f : -1.0f;
  if (!ts_csv_number(f, &x)) return -1;
  if (!isnan(c->data.csv.label_threshold))
    return x >= c->data.csv.label_threshold;
  return x == 0 || x == 1 ? (float)x : -1.0f;
}

/* ---- lines --------------------------------------------------------------- */

ts_err ts_csv_each_line(ts_csv *s, int64_t first, int64_t n, ts_csv_line_fn fn,
                        void *arg) {
  for (int64_t i = 0; i < n;) {
    ts_lines lines;
    int32_t here = n - i < 65536 ? (int32_t)(n - i) : 65536;
    TS_DO(ts_text_lines(s->text, &lines, first + i, &here));
    const char *p = lines.begin;
    for (int32_t k = 0; k < here; k++) {
      char why[256] = "";
      const char *end = memchr(p, '\n', (size_t)(lines.end - p));
      const char *stop = end ? end : lines.end;
      if (stop > p && stop[-1] == '\r') stop--;
      const int n_fields =
          ts_csv_split(s->fields, FIELDS_MAX, p, stop, s->separator);
      if (n_fields != s->n_fields)
        snprintf(why, sizeof why,
                 "%.160s:%lld: %s%d fields, the header has "
                 "%d",
                 lines.path, (long long)(lines.number + k),
                 n_fields < 0 ? "a quote has no end; " : "", n_fields,
                 s->n_fields);
      else
        snprintf(why, sizeof why, "%.160s:%lld", lines.path,
                 (long long)(lines.number + k));
      TS_DO(fn(s, arg, first + i + k, n_fields == s->n_fields ? NULL : why));
      p = end ? end + 1 : lines.end;
    }
    i += here;
  }
  return TS_OK;
}

/* ---- batches ------------------------------------------------------------- */

typedef struct ts_filling {
  ts_batch_store *b;
  int64_t first;
} ts_filling;

/* Fills sample I from a line with the right number of fields; returns what is
 * wrong with it, NULL: nothing. */
static const char *fill(ts_csv *s, ts_batch_store *b, int64_t i) {
  double x;
  const int32_t n_tasks = s->base.info.n_tasks;
  for (int32_t k = 0; k < n_tasks; k++) {
    float *label = &b->labels[i * n_tasks + k];
    *label = label_of(s, &s->fields[s->label[k]]);
    if (*label < 0) return "the label is neither 0 nor 1";
  }
  for (int32_t d = 0; d < s->n_dense; d++) {
    const ts_field *f = &s->fields[s->dense[d]];
    float *to = &b->dense[i * s->n_dense + d];
    *to = 0;
    if (ts_csv_is_missing(s, f)) continue;
    if (!ts_csv_number(f, &x)) return "a numeric field is no number";
    x = ts_csv_transform(s, x);
    *to = (float)(s->standardise ? (x - s->mean[d]) / s->deviation[d] : x);
  }
  for (int32_t k = 0; k < s->n_features; k++)
    b->feature[k].ids[i] =
        id_of(s, k, &s->fields[s->sparse[k]], b->of[k].table->rows);
  return NULL;
}

static ts_err fill_line(ts_csv *s, void *arg, int64_t sample, const char *why) {
  ts_filling *f = arg;
  const ts_config *c = s->base.config;
  const int64_t i = sample - f->first;
  ts_lines at;
  int32_t one = 1;
  const char *what = why ? NULL : fill(s, f->b, i);
  if (!why && !what) return TS_OK;
  const bool stop = c->data.on_bad_record == TS_ON_BAD_STOP;
  if (stop || s->base.n_bad_records >= c->data.max_bad) {
    const char *more = stop ? "; data.on_bad_record = \"skip\" leaves such "
                              "records out"
                            : " (data.max_bad is reached)";
    if (why) return ts_fail(TS_ERR_DATA, "%s%s", why, more);
    ts_err err = ts_text_lines(s->text, &at, sample, &one);
    return err != TS_OK ? err
                        : ts_fail(TS_ERR_DATA, "%s:%lld: %s%s", at.path,
                                  (long long)at.number, what, more);
  }
  const int32_t n_tasks = s->base.info.n_tasks;
  for (int32_t k = 0; k < n_tasks; k++) f->b->labels[i * n_tasks + k] = 0;
  f->b->weights[i] = 0;
  for (int32_t d = 0; d < s->n_dense; d++) f->b->dense[i * s->n_dense + d] = 0;
  for (int32_t k = 0; k < s->n_features; k++) f->b->feature[k].ids[i] = 0;
  s->base.n_bad_records++;
  f->b->batch.n_bad++;
  return TS_OK;
}

static ts_err read_batch(ts_source *src, ts_batch_store *b, int64_t first,
                         int32_t n) {
  ts_csv *s = (ts_csv *)src;
  ts_filling filling = {b, first};
  TS_DO(ts_batch_store_begin(b, n, src->info.n_tasks, s->n_dense,
                             src->info.has_weights));
  for (int32_t f = 0; f < s->n_features; f++)
    TS_DO(ts_batch_store_feature(b, f, n, TS_BAGS_ONE, false));
  TS_DO(ts_csv_each_line(s, first, n, fill_line, &filling));
  TS_DO(ts_batch_store_empty_bad(b));
  return ts_batch_store_end(b);
}

/* ---- opening ------------------------------------------------------------- */

static int find_column(const ts_field *header, int n, const char *name) {
  for (int i = 0; i < n; i++)
    if (strlen(name) == header[i].n_bytes &&
        !memcmp(name, header[i].text, header[i].n_bytes))
      return i;
  return -1;
}

static ts_err need_column(int *to, const ts_csv *s, const char *name) {
  *to = find_column(s->fields, s->n_fields, name);
  if (*to >= 0) return TS_OK;
  return ts_fail(TS_ERR_DATA, "the header has no column \"%s\": %.200s", name,
                 ts_text_header(s->text));
}

static ts_err map_columns(ts_csv *s) {
  const ts_config *c = s->base.config;
  const char *header = ts_text_header(s->text);
  const ts_strings *names = &c->data.csv.sparse;
  s->n_fields = ts_csv_split(s->fields, FIELDS_MAX, header,
                             header + strlen(header), s->separator);
  if (s->n_fields < 1 || s->n_fields > FIELDS_MAX)
    return ts_fail(TS_ERR_DATA, "the header can't be read: %.200s", header);
  if (names->n && names->n != s->n_features)
    return ts_fail(TS_ERR_DECK,
                   "data.csv.sparse lists %d columns for %d features", names->n,
                   s->n_features);
  for (int32_t k = 0; k < s->base.info.n_tasks; k++)
    TS_DO(need_column(&s->label[k], s,
                      c->data.csv.labels.n ? c->data.csv.labels.item[k]
                                           : c->data.csv.label));
  for (int32_t d = 0; d < s->n_dense; d++)
    TS_DO(need_column(&s->dense[d], s, c->data.csv.dense.item[d]));
  for (int32_t k = 0; k < s->n_features; k++) {
    const char *feature;
    (void)ts_feature_table(c, k, &feature);
    /* A list gives the columns in the order of the features. */
    TS_DO(
        need_column(&s->sparse[k], s,
                    names->n && find_column(s->fields, s->n_fields, feature) < 0
                        ? names->item[k]
                        : feature));
  }
  return TS_OK;
}

/* Row 0 is for unknown and missing values. */
static ts_err needs(ts_source *src, ts_need *out, bool sample) {
  const ts_csv *s = (const ts_csv *)src;
  (void)sample;
  for (int32_t k = 0; k < s->n_features; k++)
    out[k] = s->vocabulary ? (ts_need){.rows = s->words[k].n + 1}
                           : (ts_need){.why = "data.csv.encoding = \"hash\" "
                                              "fits words to any number of "
                                              "rows: \"vocabulary\" numbers "
                                              "them"};
  return TS_OK;
}

static void close_source(ts_source *src) {
  ts_csv *s = (ts_csv *)src;
  if (!s) return;
  ts_text_close(s->text);
  for (int32_t k = 0; s->words && k < s->n_features; k++) {
    for (int64_t i = 0; i < s->words[k].n; i++)
      ts_mem_free(s->words[k].word[i]);
    ts_mem_free(s->words[k].word);
  }
  ts_mem_free_all(s->words, s->label, s->dense, s->sparse, s->mean,
                  s->deviation, s->fields, s);
}

extern const ts_source_ops ts_source_csv;

static ts_err create(ts_csv **out, const ts_config *c, ts_split split) {
  ts_csv *s = NULL;
  const char *t = c->data.csv.dense_transform;
  TS_DO(ts_mem_alloc(&s, sizeof *s, TS_TAG_INPUT));
  *out = s;
  s->base = (ts_source){.ops = &ts_source_csv, .config = c, .split = split};
  s->base.info.n_tasks = c->data.csv.labels.n ? c->data.csv.labels.n : 1;
  TS_DO(ts_mem_many(s->label, s->base.info.n_tasks, INPUT));
  s->separator =
      !strcmp(c->data.csv.separator, "tab") ? '\t' : *c->data.csv.separator;
  s->n_dense = c->data.csv.dense.n;
  s->n_features = ts_feature_count(c);
  s->log = !strncmp(t, "log1p", 5);
  s->standardise = strstr(t, "standardise") != NULL;
  s->vocabulary = !strcmp(c->data.csv.encoding, "vocabulary");
  TS_DO(ts_mem_many(s->dense, s->n_dense, INPUT));
  TS_DO(ts_mem_many(s->sparse, s->n_features, INPUT));
  TS_DO(ts_mem_many(s->mean, s->n_dense, INPUT));
  TS_DO(ts_mem_many(s->deviation, s->n_dense, INPUT));
  TS_DO(ts_mem_many(s->words, s->n_features, INPUT));
  return ts_mem_many(s->fields, FIELDS_MAX, INPUT);
}

static ts_err open_source(ts_source **out, const ts_config *c, ts_split split,
                          const char *state, const ts_strings *paths,
                          ts_comm *comm) {
  ts_err err = TS_OK;
  ts_csv *s = NULL;
  TS_TRY(ts_agree(comm, create(&s, c, split)));
  TS_TRY(ts_text_open(&s->text, paths, true, comm));
  TS_TRY(ts_agree(comm, map_columns(s)));
  if (s->standardise || s->vocabulary) {
    if (state)
      TS_TRY(ts_agree(comm, ts_csv_state_load(s, state)));
    else
      TS_TRY(ts_csv_learn(s, comm));
  }
  s->base.info =
      (ts_source_info){.n_samples = ts_text_n_lines(s->text),
                       .n_dense = s->n_dense,
                       .n_tasks = s->base.info.n_tasks,
                       .n_features = s->n_features,
                       .has_weights = c->data.on_bad_record == TS_ON_BAD_DROP,
                       .bayes_logloss = NAN,
                       .bayes_auc = NAN};
  *out = &s->base;
done:
  if (err != TS_OK) close_source((ts_source *)s);
  return err;
}

static ts_err recall(ts_source **out, const ts_config *c, const char *state) {
  ts_csv *s = NULL;
  ts_err err = create(&s, c, TS_SPLIT_TRAIN);
  if (err == TS_OK && (s->standardise || s->vocabulary))
    err = ts_csv_state_load(s, state);
  if (err == TS_OK)
    *out = &s->base;
  else
    close_source((ts_source *)s);
  return err;
}

static bool words_of(const ts_source *src, int32_t feature, ts_words *words) {
  const ts_csv *s = (const ts_csv *)src;
  if (!s->vocabulary) return false;
  *words = (ts_words){s->words[feature].word, s->words[feature].n};
  return true;
}

const ts_source_ops ts_source_csv = {.format = "csv",
                                     .probe = probe,
                                     .needs = needs,
                                     .open = open_source,
                                     .close = close_source,
                                     .read = read_batch,
                                     .state_save = ts_csv_state_save,
                                     .recall = recall,
                                     .words = words_of};
