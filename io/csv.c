/* csv.c - CSV with a header, by the deck's csv group.
 *
 * Numeric columns may be log1p'd and standardised (mean and deviation over
 * the training files); categorical ones are hashed, or numbered by a
 * vocabulary of the training files (sorted, from 1; 0 is for unknown and
 * missing values).  What was learnt from the training files goes to later
 * sources, and into the checkpoint, as a text. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "io/batch_store.h"
#include "io/csv_fields.h"
#include "io/text.h"

enum { FIELDS_MAX = 4096 };

typedef struct ts_vocabulary {
  char **word; /* (n) sorted */
  int64_t n;
} ts_vocabulary;

typedef struct ts_csv {
  ts_source base;
  ts_text *text;
  char separator;
  int n_fields; /* columns */
  int *label;   /* (n_tasks) columns */
  int32_t n_dense, n_features;
  int *dense, *sparse; /* columns of each */
  bool log, standardise, vocabulary;
  double *mean, *deviation; /* (n_dense) */
  ts_vocabulary *words;     /* (n_features) */
  ts_field *fields;         /* (FIELDS_MAX) scratch */
} ts_csv;

static bool probe(const char *path) {
  const size_t n = strlen(path);
  return n > 4 && (!strcmp(path + n - 4, ".csv") ||
                   (n > 7 && !strcmp(path + n - 7, ".csv.gz")));
}

/* ---- fields -------------------------------------------------------------- */

static bool is_missing(const ts_csv *s, const ts_field *f) {
  const char *missing = s->base.config->data.csv.missing;
  return !f->n_bytes || (f->n_bytes == strlen(missing) &&
                         !memcmp(f->text, missing, f->n_bytes));
}

/* A number; false where it is none. */
static bool number(const ts_field *f, double *x) {
  char text[64], *end;
  if (f->n_bytes >= sizeof text) return false;
  memcpy(text, f->text, f->n_bytes);
  text[f->n_bytes] = '\0';
  *x = strtod(text, &end);
  return end != text && !*end && isfinite(*x);
}

static double transform(const ts_csv *s, double x) {
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
  if (is_missing(s, f)) return 0;
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
  if (!number(f, &x)) return -1;
  if (!isnan(c->data.csv.label_threshold))
    return x >= c->data.csv.label_threshold;
  return x == 0 || x == 1 ? (float)x : -1.0f;
}

/* ---- lines --------------------------------------------------------------- */

typedef ts_err (*ts_line_fn)(ts_csv *, void *arg, int64_t sample,
                             const char *why);

/* Splits lines [first, first + n) and calls FN for each, WHY being what is
 * wrong with it, or NULL. */
static ts_err each_line(ts_csv *s, int64_t first, int64_t n, ts_line_fn fn,
                        void *arg) {
  ts_err err = TS_OK;
  for (int64_t i = 0; i < n;) {
    ts_lines lines;
    int32_t here = n - i < 65536 ? (int32_t)(n - i) : 65536;
    TS_TRY(ts_text_lines(s->text, &lines, first + i, &here));
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
      TS_TRY(fn(s, arg, first + i + k, n_fields == s->n_fields ? NULL : why));
      p = end ? end + 1 : lines.end;
    }
    i += here;
  }
done:
  return err;
}

/* ---- learning from the training files ------------------------------------ */

/* Of the numbers so far.  Squares of distances, not of numbers: those of a
 * date's seconds have no digits left for what differs. */
typedef struct ts_moments {
  double n, mean, squares; /* sum of the squares of distances from the mean */
} ts_moments;

static void add_moments(ts_moments *to, const ts_moments *x) {
  const double n = to->n + x->n, apart = x->mean - to->mean;
  if (x->n == 0) return;
  to->squares += x->squares + apart * apart * to->n * x->n / n;
  to->mean += apart * x->n / n;
  to->n = n;
}

typedef struct ts_learning {
  ts_moments *moments;  /* (n_dense) */
  ts_vocabulary *words; /* (n_features) unsorted with repeats removed late */
  int64_t *capacity;
} ts_learning;

static int by_word(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Sorts and removes repeats. */
static void settle(ts_vocabulary *v) {
  int64_t n = 0;
  if (v->n) qsort(v->word, (size_t)v->n, sizeof *v->word, by_word);
  for (int64_t i = 0; i < v->n; i++) {
    if (n && !strcmp(v->word[n - 1], v->word[i]))
      ts_mem_free(v->word[i]);
    else
      v->word[n++] = v->word[i];
  }
  v->n = n;
}

static ts_err add_word(ts_vocabulary *v, int64_t *capacity, const char *text,
                       size_t n_bytes) {
  ts_err err = TS_OK;
  if (v->n == *capacity) {
    settle(v);
    if (2 * v->n > *capacity || !*capacity) {
      const int64_t more = *capacity ? 2 * *capacity : 4096;
      TS_TRY(ts_mem_resize(&v->word, (size_t)v->n * sizeof *v->word,
                           (size_t)more * sizeof *v->word, TS_TAG_INPUT));
      *capacity = more;
    }
  }
  TS_TRY(ts_mem_alloc(&v->word[v->n], n_bytes + 1, TS_TAG_INPUT));
  memcpy(v->word[v->n], text, n_bytes);
  v->n++;
done:
  return err;
}

static ts_err learn_line(ts_csv *s, void *arg, int64_t sample,
                         const char *why) {
  ts_err err = TS_OK;
  ts_learning *l = arg;
  double x;
  (void)sample;
  if (why) return TS_OK; /* reported when it is read */
  for (int32_t d = 0; s->standardise && d < s->n_dense; d++) {
    const ts_field *f = &s->fields[s->dense[d]];
    if (is_missing(s, f) || !number(f, &x)) continue;
    x = transform(s, x);
    add_moments(&l->moments[d], &(ts_moments){1, x, 0});
  }
  for (int32_t k = 0; s->vocabulary && k < s->n_features; k++) {
    const ts_field *f = &s->fields[s->sparse[k]];
    if (is_missing(s, f)) continue;
    TS_TRY(add_word(&l->words[k], &l->capacity[k], f->text, f->n_bytes));
  }
done:
  return err;
}

/* All ranks' words of a feature, sorted: each word with its NUL in turn. */
static ts_err share_words(ts_vocabulary *v, ts_comm *comm) {
  ts_err err = TS_OK;
  const int w = ts_comm_size(comm);
  int64_t own = 0, bytes[w], total = 0, capacity = 0;
  char *text = NULL, *all = NULL;
  ts_token token;
  settle(v);
  for (int64_t i = 0; i < v->n; i++) own += (int64_t)strlen(v->word[i]) + 1;
  TS_TRY(ts_mem_alloc(&text, (size_t)own + 1, TS_TAG_INPUT));
  char *to = text;
  for (int64_t i = 0; i < v->n; i++) to = stpcpy(to, v->word[i]) + 1;
  TS_TRY(ts_comm_gather_all(comm, bytes, &own, sizeof own));
  for (int r = 0; r < w; r++) total += bytes[r];
  TS_TRY(ts_mem_alloc(&all, (size_t)total + 1, TS_TAG_INPUT));
  TS_TRY(ts_comm_all_gather_v(comm, &token, all, text, bytes, NULL));
  TS_TRY(ts_comm_wait(&token));
  for (int64_t i = 0; i < v->n; i++) ts_mem_free(v->word[i]);
  ts_mem_free(v->word);
  *v = (ts_vocabulary){0};
  for (const char *p = all; p < all + total; p += strlen(p) + 1)
    TS_TRY(add_word(v, &capacity, p, strlen(p)));
  settle(v);
done:
  ts_mem_free(text);
  ts_mem_free(all);
  return err;
}

/* In rank order; numbers that are all alike are left at 0. */
static ts_err share_moments(ts_csv *s, int32_t d, const ts_moments *own,
                            ts_comm *comm) {
  ts_err err = TS_OK;
  ts_moments all[ts_comm_size(comm)], sum = {0};
  TS_TRY(ts_comm_gather_all(comm, all, own, sizeof *own));
  for (int r = 0; r < ts_comm_size(comm); r++) add_moments(&sum, &all[r]);
  const double variance = sum.squares / fmax(sum.n, 1);
  s->mean[d] = sum.mean;
  s->deviation[d] = variance > 1e-12 ? sqrt(variance) : 1;
done:
  return err;
}

static ts_err learn(ts_csv *s, ts_comm *comm) {
  ts_err err = TS_OK;
  ts_learning l = {.words = s->words};
  const int w = ts_comm_size(comm), me = ts_comm_rank(comm);
  const int64_t n = ts_text_n_lines(s->text);
  TS_TRY(ts_mem_array(&l.moments, s->n_dense, sizeof *l.moments, TS_TAG_INPUT));
  TS_TRY(ts_mem_array(&l.capacity, s->n_features, 8, TS_TAG_INPUT));
  TS_TRY(ts_agree(comm, each_line(s, n * me / w, n * (me + 1) / w - n * me / w,
                                  learn_line, &l)));
  for (int32_t d = 0; s->standardise && d < s->n_dense; d++)
    TS_TRY(share_moments(s, d, &l.moments[d], comm));
  for (int32_t k = 0; s->vocabulary && k < s->n_features; k++)
    TS_TRY(share_words(&s->words[k], comm));
done:
  ts_mem_free(l.moments);
  ts_mem_free(l.capacity);
  return err;
}

static ts_err state_save(ts_source *src, ts_str *text) {
  ts_err err = TS_OK;
  const ts_csv *s = (const ts_csv *)src;
  for (int32_t d = 0; s->standardise && d < s->n_dense; d++)
    TS_TRY(ts_str_append(text, "D %.17g %.17g\n", s->mean[d], s->deviation[d]));
  for (int32_t k = 0; s->vocabulary && k < s->n_features; k++) {
    TS_TRY(ts_str_append(text, "V %lld\n", (long long)s->words[k].n));
    for (int64_t i = 0; i < s->words[k].n; i++)
      TS_TRY(ts_str_append(text, "%s\n", s->words[k].word[i]));
  }
done:
  return err;
}

/* Past the end of the line at P, or at the end of the text. */
static const char *next_line(const char *p) {
  const char *end = strchr(p, '\n');
  return end ? end + 1 : p + strlen(p);
}

static ts_err state_load(ts_csv *s, const char *p) {
  ts_err err = TS_OK;
  for (int32_t d = 0; s->standardise && d < s->n_dense; d++) {
    if (sscanf(p, "D %lf %lf", &s->mean[d], &s->deviation[d]) != 2)
      TS_THROW(TS_ERR_CKPT,
               "the checkpoint has no scale for numeric column "
               "%d",
               d + 1);
    p = next_line(p);
  }
  for (int32_t k = 0; s->vocabulary && k < s->n_features; k++) {
    long long n;
    int64_t capacity = 0;
    if (sscanf(p, "V %lld", &n) != 1)
      TS_THROW(TS_ERR_CKPT,
               "the checkpoint has no vocabulary for "
               "categorical column %d",
               k + 1);
    for (p = next_line(p); n > 0; n--) {
      if (!*p)
        TS_THROW(TS_ERR_CKPT,
                 "the checkpoint's vocabulary for categorical column %d ends "
                 "%lld words early",
                 k + 1, n);
      TS_TRY(add_word(&s->words[k], &capacity, p, strcspn(p, "\n")));
      p = next_line(p);
    }
    settle(&s->words[k]);
  }
done:
  return err;
}

/* ---- batches ------------------------------------------------------------- */

typedef struct ts_filling {
  ts_batch_store *b;
  int64_t first;
} ts_filling;

/* What is wrong with a line of the right number of fields; NULL: nothing. */
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
    if (is_missing(s, f)) continue;
    if (!number(f, &x)) return "a numeric field is no number";
    x = transform(s, x);
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
  ts_err err = TS_OK;
  ts_csv *s = (ts_csv *)src;
  ts_filling filling = {b, first};
  TS_TRY(ts_batch_store_begin(b, n, src->info.n_tasks, s->n_dense,
                              src->info.has_weights));
  for (int32_t f = 0; f < s->n_features; f++)
    TS_TRY(ts_batch_store_feature(b, f, n, TS_BAGS_ONE, false));
  TS_TRY(each_line(s, first, n, fill_line, &filling));
  TS_TRY(ts_batch_store_empty_bad(b));
  TS_TRY(ts_batch_store_end(b));
done:
  return err;
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
  ts_err err = TS_OK;
  const ts_config *c = s->base.config;
  const char *header = ts_text_header(s->text);
  const ts_strings *names = &c->data.csv.sparse;
  s->n_fields = ts_csv_split(s->fields, FIELDS_MAX, header,
                             header + strlen(header), s->separator);
  if (s->n_fields < 1 || s->n_fields > FIELDS_MAX)
    TS_THROW(TS_ERR_DATA, "the header can't be read: %.200s", header);
  if (names->n && names->n != s->n_features)
    TS_THROW(TS_ERR_DECK, "data.csv.sparse lists %d columns for %d features",
             names->n, s->n_features);
  for (int32_t k = 0; k < s->base.info.n_tasks; k++)
    TS_TRY(need_column(&s->label[k], s,
                       c->data.csv.labels.n ? c->data.csv.labels.item[k]
                                            : c->data.csv.label));
  for (int32_t d = 0; d < s->n_dense; d++)
    TS_TRY(need_column(&s->dense[d], s, c->data.csv.dense.item[d]));
  for (int32_t k = 0; k < s->n_features; k++) {
    const char *feature;
    (void)ts_feature_table(c, k, &feature);
    /* A list gives the columns in the order of the features. */
    TS_TRY(
        need_column(&s->sparse[k], s,
                    names->n && find_column(s->fields, s->n_fields, feature) < 0
                        ? names->item[k]
                        : feature));
  }
done:
  return err;
}

static ts_err check_sizes(const ts_csv *s) {
  for (int32_t k = 0; s->vocabulary && k < s->n_features; k++) {
    const char *name;
    const ts_table_config *t = ts_feature_table(s->base.config, k, &name);
    if (s->words[k].n + 1 > t->rows)
      return ts_fail(TS_ERR_DATA,
                     "feature %s has %lld values and needs %lld rows; table "
                     "%s has %lld",
                     name, (long long)s->words[k].n,
                     (long long)s->words[k].n + 1, t->name, (long long)t->rows);
  }
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
  ts_mem_free(s->words);
  ts_mem_free(s->label);
  ts_mem_free(s->dense);
  ts_mem_free(s->sparse);
  ts_mem_free(s->mean);
  ts_mem_free(s->deviation);
  ts_mem_free(s->fields);
  ts_mem_free(s);
}

static ts_err create(ts_csv **out, const ts_config *c, ts_split split) {
  extern const ts_source_ops ts_source_csv;
  ts_err err = TS_OK;
  ts_csv *s = NULL;
  const char *t = c->data.csv.dense_transform;
  TS_TRY(ts_mem_alloc(&s, sizeof *s, TS_TAG_INPUT));
  *out = s;
  s->base = (ts_source){.ops = &ts_source_csv, .config = c, .split = split};
  s->base.info.n_tasks = c->data.csv.labels.n ? c->data.csv.labels.n : 1;
  TS_TRY(ts_mem_array(&s->label, s->base.info.n_tasks, sizeof *s->label,
                      TS_TAG_INPUT));
  s->separator =
      !strcmp(c->data.csv.separator, "tab") ? '\t' : *c->data.csv.separator;
  s->n_dense = c->data.csv.dense.n;
  s->n_features = ts_feature_count(c);
  s->log = !strncmp(t, "log1p", 5);
  s->standardise = strstr(t, "standardise") != NULL;
  s->vocabulary = !strcmp(c->data.csv.encoding, "vocabulary");
  TS_TRY(ts_mem_array(&s->dense, s->n_dense, sizeof(int), TS_TAG_INPUT));
  TS_TRY(ts_mem_array(&s->sparse, s->n_features, sizeof(int), TS_TAG_INPUT));
  TS_TRY(ts_mem_array(&s->mean, s->n_dense, 8, TS_TAG_INPUT));
  TS_TRY(ts_mem_array(&s->deviation, s->n_dense, 8, TS_TAG_INPUT));
  TS_TRY(
      ts_mem_array(&s->words, s->n_features, sizeof *s->words, TS_TAG_INPUT));
  TS_TRY(ts_mem_array(&s->fields, FIELDS_MAX, sizeof *s->fields, TS_TAG_INPUT));
done:
  return err;
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
      TS_TRY(ts_agree(comm, state_load(s, state)));
    else
      TS_TRY(learn(s, comm));
    TS_TRY(ts_agree(comm, check_sizes(s)));
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
  s = NULL;
done:
  close_source((ts_source *)s);
  return err;
}

extern const ts_source_ops ts_source_csv;
const ts_source_ops ts_source_csv = {.format = "csv",
                                     .probe = probe,
                                     .open = open_source,
                                     .close = close_source,
                                     .read = read_batch,
                                     .state_save = state_save};
