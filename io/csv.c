/* csv.c - CSV with a header, by the deck's csv group.
 *
 * Numeric columns go through transforms (io/scales.h); categorical ones are
 * hashed, or numbered by a vocabulary (io/vocabulary.h).  Later sources, and
 * the checkpoint, get what was learnt from them as a text. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/dense_columns.h"
#include "base/mem.h"
#include "io/columns.h"
#include "io/csv_impl.h"
#include "io/keys.h"

static bool probe(const char *path) {
  return ts_str_ends(path, ".csv") || ts_str_ends(path, ".csv.gz");
}

/* ---- lines --------------------------------------------------------------- */

static int split_line(ts_csv *s, const char *p, const char *end) {
  if (end > p && end[-1] == '\r') end--;
  return ts_csv_split(s->fields, s->n_fields, p, end, s->separator);
}

/* Calls FN for row SAMPLE of the table, whose group is held. */
static ts_err at_row(ts_csv *s, int64_t sample, ts_csv_line_fn fn, void *arg) {
  ts_columnar_turn(s->table, sample);
  s->why[0] = '\0';
  return fn(s, arg, sample);
}

static ts_err each_row(ts_csv *s, int64_t first, int64_t n, ts_csv_line_fn fn,
                       void *arg) {
  const int64_t all = ts_columnar_n_rows(s->table);
  for (int64_t i = first; i < first + n;) {
    const int64_t end = ts_columnar_end(s->table, i);
    TS_DO(ts_columnar_hold(s->table, &i, 1, end < all ? end : -1));
    for (; i < end && i < first + n; i++) TS_DO(at_row(s, i, fn, arg));
  }
  return TS_OK;
}

ts_err ts_csv_each_line(ts_csv *s, int64_t first, int64_t n, ts_csv_line_fn fn,
                        void *arg) {
  if (s->table) return each_row(s, first, n, fn, arg);
  for (int64_t i = 0; i < n;) {
    int32_t here = n - i < 65536 ? (int32_t)(n - i) : 65536;
    TS_DO(ts_text_lines(s->text, &s->lines, first + i, &here));
    const char *p = s->lines.begin, *last = s->lines.end;
    for (int32_t k = 0; k < here; k++) {
      const char *end = memchr(p, '\n', (size_t)(last - p));
      int n_fields = split_line(s, p, end ? end : last);
      if (n_fields < 0 && s->lines.quoted) { /* it goes on */
        end = ts_csv_record_end(p, last, s->separator);
        n_fields = split_line(s, p, end ? end : last);
      }
      s->line = p;
      s->why[0] = '\0';
      if (n_fields < 0)
        snprintf(s->why, sizeof s->why, "a quote has no end");
      else if (n_fields != s->n_fields)
        snprintf(s->why, sizeof s->why, "%d fields, the header has %d",
                 n_fields, s->n_fields);
      TS_DO(fn(s, arg, first + i + k));
      p = end ? end + 1 : last;
    }
    i += here;
  }
  return TS_OK;
}

const char *ts_csv_place(const ts_csv *s, char place[4200]) {
  int64_t row;
  const char *path = s->table ? ts_columnar_place(s->table, &row) : NULL;
  if (path)
    snprintf(place, 4200, "%.4100s: row %lld", path, (long long)row);
  else
    snprintf(place, 4200, "%.4100s:%lld", s->lines.path,
             (long long)ts_lines_number(&s->lines, s->line));
  return place;
}

/* ---- batches ------------------------------------------------------------- */

typedef struct ts_filling {
  ts_batch_store *b;
  int64_t first;
} ts_filling;

/* Fills sample I from a line with the right number of fields; what is wrong
 * with it to s->why. */
static ts_err fill(ts_csv *s, ts_batch_store *b, int64_t i) {
  double x;
  const int32_t n_tasks = s->base.info.n_tasks;
  for (int32_t k = 0; k < n_tasks; k++)
    b->labels[i * n_tasks + k] = ts_csv_label(s, k);
  if (s->weight >= 0) b->weights[i] = ts_csv_weight(s);
  if (s->all_filled) return TS_OK;
  for (int32_t d = 0; d < s->n_dense; d++) {
    if (s->filled && s->filled[s->n_features + d]) continue;
    if (!ts_csv_dense(s, d, &x)) x = NAN;
    ts_scales_put(s->base.scales, d, x, b->dense + i * b->batch.n_dense);
  }
  for (int32_t k = 0; k < s->n_features; k++) {
    const int64_t rows = b->of[k].rows;
    if (ts_batch_store_is_same(b, k) || (s->filled && s->filled[k])) continue;
    if (ts_csv_has_bags(&s->bags[k])) {
      TS_DO(ts_csv_bags_add(s, b, k, i));
      continue;
    }
    const int32_t input = s->ids[k].input;
    if (input >= 0) {
      if (!ts_csv_dense(s, input, &x)) x = NAN;
      b->feature[k].ids[i] = ts_scales_bucket(s->base.scales, input, x);
      continue;
    }
    const ts_field word = ts_csv_word(s, k);
    b->feature[k].ids[i] = ts_csv_id(s, k, &word, rows);
  }
  return s->failed ? ts_fail(TS_ERR_NOMEM, "out of memory for a word of a line")
                   : TS_OK;
}

/* The line at hand can't be used: an error, or a sample without weight. */
static ts_err bad_line(ts_csv *s, ts_batch_store *b, int64_t i) {
  const ts_config *c = s->base.config;
  const int32_t n_tasks = s->base.info.n_tasks;
  char place[4200];
  const bool stop = c->data.on_bad_record == TS_ON_BAD_STOP;
  if (stop || s->base.n_bad_records >= c->data.max_bad)
    return ts_fail(TS_ERR_DATA, "%s: %s%s", ts_csv_place(s, place), s->why,
                   stop ? "; data.on_bad_record = \"skip\" leaves such "
                          "records out"
                        : " (data.max_bad is reached)");
  for (int32_t k = 0; k < n_tasks; k++) b->labels[i * n_tasks + k] = 0;
  b->weights[i] = 0;
  const int32_t width = b->batch.n_dense;
  for (int32_t d = 0; d < width; d++) b->dense[i * width + d] = 0;
  for (int32_t k = 0; k < s->n_features; k++)
    if (!ts_csv_has_bags(&s->bags[k]) && !ts_batch_store_is_same(b, k))
      b->feature[k].ids[i] = 0;
  ts_csv_bags_empty(s, i);
  s->base.n_bad_records++;
  b->batch.n_bad++;
  return TS_OK;
}

static ts_err fill_line(ts_csv *s, void *arg, int64_t sample) {
  const ts_filling *f = arg;
  const int64_t i = sample - f->first;
  if (!*s->why) TS_DO(fill(s, f->b, i));
  return *s->why ? bad_line(s, f->b, i) : TS_OK;
}

static ts_err begin_batch(ts_csv *s, ts_batch_store *b, int32_t n) {
  const ts_source_info *info = &s->base.info;
  TS_DO(ts_batch_store_begin(
      b, n, info->n_tasks, ts_dense_width(s->base.config), info->has_weights));
  for (int32_t f = 0; f < s->n_features; f++)
    if (!ts_csv_has_bags(&s->bags[f]) && !ts_batch_store_is_same(b, f))
      TS_DO(ts_batch_store_feature(b, f, n, TS_BAGS_ONE, false));
  return ts_csv_bags_begin(s, n);
}

static ts_err end_batch(ts_csv *s, ts_batch_store *b) {
  TS_DO(ts_csv_bags_store(s, b));
  TS_DO(ts_batch_store_empty_bad(b));
  return ts_batch_store_end(b);
}

/* ROWS of the table; AHEAD is likely to be wanted soon, -1: what follows. */
static ts_err fill_rows(ts_csv *s, ts_batch_store *b, const int64_t *rows,
                        int32_t n, int64_t ahead) {
  if (s->base.anywhere) ts_columnar_keep(s->table);
  if (n && ahead < 0) ahead = ts_columnar_end(s->table, rows[n - 1]);
  if (ahead >= ts_columnar_n_rows(s->table)) ahead = -1;
  TS_DO(begin_batch(s, b, n));
  TS_DO(ts_columnar_hold(s->table, rows, n, ahead));
  TS_DO(ts_csv_table_fill(s, b, rows, n));
  for (int32_t i = 0; i < n; i++) {
    ts_filling filling = {b, rows[i] - i};
    TS_DO(at_row(s, rows[i], fill_line, &filling));
  }
  return end_batch(s, b);
}

static ts_err read_rows(ts_csv *s, ts_batch_store *b, int64_t first,
                        int32_t n) {
  if (s->n_rows < n)
    TS_DO(ts_mem_extend(&s->rows, s->n_rows, n, sizeof *s->rows, TS_TAG_INPUT));
  if (s->n_rows < n) s->n_rows = n;
  for (int32_t i = 0; i < n; i++) s->rows[i] = first + i;
  return fill_rows(s, b, s->rows, n, -1);
}

ts_err ts_csv_read(ts_source *src, ts_batch_store *b, int64_t first,
                   int32_t n) {
  ts_csv *s = (ts_csv *)src;
  if (s->table) return read_rows(s, b, first, n);
  ts_filling filling = {b, first};
  TS_DO(begin_batch(s, b, n));
  TS_DO(ts_csv_each_line(s, first, n, fill_line, &filling));
  return end_batch(s, b);
}

ts_err ts_csv_gather(ts_source *src, ts_batch_store *b, const int64_t *samples,
                     int32_t n) {
  ts_csv *s = (ts_csv *)src;
  if (s->table) return fill_rows(s, b, samples, n, src->ahead);
  TS_DO(begin_batch(s, b, n));
  for (int32_t i = 0; i < n; i++) {
    ts_filling filling = {b, samples[i] - i};
    TS_DO(ts_csv_each_line(s, samples[i], 1, fill_line, &filling));
  }
  return end_batch(s, b);
}

/* ---- how long samples are ------------------------------------------------ */

typedef struct ts_counting {
  int32_t *n_ids; /* (n_features, n) */
  const int32_t *features;
  int32_t n_features, n;
  int64_t first; /* its count is the first one */
} ts_counting;

/* Ids that turn out to be none count, too. */
static int32_t ids_of(ts_csv *s, int32_t feature) {
  const ts_csv_bags *b = &s->bags[feature];
  ts_csv_items items;
  ts_field item;
  float weight;
  int32_t n = 0;
  if (!ts_csv_has_bags(b)) return 1;
  if (!ts_csv_items_of(s, feature, &items)) return 0;
  while ((!b->max_length || n < b->max_length) &&
         ts_csv_item(s, feature, &items, &item, &weight))
    n++;
  return n;
}

static ts_err count_line(ts_csv *s, void *arg, int64_t sample) {
  const ts_counting *c = arg;
  for (int32_t k = 0; k < c->n_features; k++)
    c->n_ids[(int64_t)k * c->n + (sample - c->first)] =
        *s->why ? 0 : ids_of(s, c->features[k]);
  return TS_OK;
}

ts_err ts_csv_lengths(ts_source *src, int32_t *n_ids, const int32_t *features,
                      int32_t n_features, const int64_t *samples, int32_t n) {
  ts_csv *s = (ts_csv *)src;
  if (s->table) TS_DO(ts_columnar_hold(s->table, samples, n, -1));
  for (int32_t i = 0, m; i < n; i += m) {
    ts_counting c = {n_ids, features, n_features, n, samples[i] - i};
    m = 1;
    if (s->table) TS_DO(at_row(s, samples[i], count_line, &c));
    if (s->table) continue;
    for (; i + m < n && samples[i + m] == samples[i] + m; m++) continue;
    TS_DO(ts_csv_each_line(s, samples[i], m, count_line, &c));
  }
  return TS_OK;
}

/* ---- opening ------------------------------------------------------------- */

/* Row 0 is for unknown and missing values. */
static ts_need need_of(const ts_csv *s, int32_t k) {
  ts_words words;
  switch (s->ids[k].encoding) {
  case TS_CSV_VOCABULARY:
    (void)ts_source_words(&s->base, k, &words);
    return (ts_need){.rows = words.n + 1};
  case TS_CSV_NUMBER:
    if (ts_time_rows(s->ids[k].part))
      return (ts_need){.rows = ts_time_rows(s->ids[k].part), .plain = true};
    return (ts_need){.why = "ids of text are known as they are read"};
  case TS_CSV_BUCKET:
    return (ts_need){.rows = ts_scales_rows(s->base.scales, k)};
  case TS_CSV_MODULO:
    return (ts_need){.why = "ids modulo the rows fit any number of them"};
  case TS_CSV_HASH:
    break;
  }
  return (ts_need){.why = "data.csv.encoding = \"hash\" fits words to any "
                          "number of rows: \"vocabulary\" numbers them"};
}

ts_err ts_csv_needs(ts_source *src, ts_need *out, bool sample) {
  const ts_csv *s = (const ts_csv *)src;
  (void)sample;
  for (int32_t k = 0; k < s->n_features; k++) out[k] = need_of(s, k);
  return TS_OK;
}

void ts_csv_close(ts_source *src) {
  ts_csv *s = (ts_csv *)src;
  if (!s) return;
  ts_text_close(s->text);
  ts_columnar_close(s->table);
  ts_source_free_learnt(&s->base);
  ts_csv_bags_free(s);
  ts_csv_values_free(s);
  ts_mem_free_all(s->label, s->where, s->label_kind, s->sparse, s->fields,
                  s->header, s->names, s->rooms, s->quick, s->filled, s->rows,
                  s);
}

static ts_err create(ts_csv **out, const ts_source_ops *ops, const ts_config *c,
                     ts_split split, const char *state) {
  ts_csv *s = NULL;
  TS_DO(ts_mem_alloc(&s, sizeof *s, TS_TAG_INPUT));
  *out = s;
  s->base = (ts_source){.ops = ops, .config = c, .split = split, .ahead = -1};
  s->base.info.n_tasks = ts_column_n_labels(c);
  TS_DO(ts_mem_many(s->label, s->base.info.n_tasks, INPUT));
  TS_DO(ts_mem_many(s->where, s->base.info.n_tasks, INPUT));
  TS_DO(ts_mem_many(s->label_kind, s->base.info.n_tasks, INPUT));
  s->separator =
      !strcmp(c->data.csv.separator, "tab") ? '\t' : *c->data.csv.separator;
  for (int32_t i = 0; i < c->data.csv.missing.n; i++) {
    const size_t n_bytes = strlen(c->data.csv.missing.item[i]);
    const ts_field f = {c->data.csv.missing.item[i], n_bytes};
    double x;
    if (n_bytes > s->missing_bytes) s->missing_bytes = n_bytes;
    s->missing_number |= ts_csv_number(&f, &x);
  }
  s->n_dense = ts_column_n_dense(c);
  s->n_features = ts_feature_count(c);
  TS_DO(ts_mem_many(s->sparse, s->n_features, INPUT));
  TS_DO(ts_mem_many(s->bags, s->n_features, INPUT));
  TS_DO(ts_source_take_learnt(&s->base, NULL, NULL, state));
  return ts_csv_values_create(s);
}

ts_err ts_csv_open(ts_source **out, const ts_source_ops *ops,
                   const ts_config *c, ts_split split, const char *state,
                   const ts_strings *paths, bool is_table, ts_comm *comm) {
  ts_err err = TS_OK;
  ts_csv *s = NULL;
  int64_t n_groups = 0;
  TS_TRY(ts_agree(comm, create(&s, ops, c, split, state)));
  TS_TRY(is_table ? ts_columnar_open(&s->table, paths, c->run.threads, comm)
                  : ts_text_open(&s->text, paths, s->separator, c->run.output,
                                 comm));
  TS_TRY(ts_agree(comm, ts_csv_columns(s, paths->item[0])));
  if (split == TS_SPLIT_TRAIN && !state) TS_TRY(ts_csv_look(s, paths, comm));
  s->base.info = (ts_source_info){
      .n_samples = ts_csv_n_lines(s),
      .n_dense = s->n_dense,
      .n_tasks = s->base.info.n_tasks,
      .n_features = s->n_features,
      .bytes = is_table ? ts_columnar_bytes(s->table) : ts_text_bytes(s->text),
      .groups = is_table ? ts_columnar_groups(s->table, &n_groups) : NULL,
      .n_groups = n_groups,
      .packed = is_table ? NULL : ts_text_packed(s->text),
      .has_weights = c->data.on_bad_record == TS_ON_BAD_DROP || s->weight >= 0,
      .unlabelled = s->base.info.unlabelled,
      .bayes_logloss = NAN,
      .bayes_auc = NAN};
  *out = &s->base;
done:
  if (err != TS_OK) ts_csv_close((ts_source *)s);
  return err;
}

extern const ts_source_ops ts_source_csv;

static ts_err open_source(ts_source **out, const ts_config *c, ts_split split,
                          const char *state, const ts_strings *paths,
                          ts_comm *comm) {
  return ts_csv_open(out, &ts_source_csv, c, split, state, paths, false, comm);
}

const ts_source_ops ts_source_csv = {.format = "csv",
                                     .probe = probe,
                                     .has_where = true,
                                     .has_items = true,
                                     .needs = ts_csv_needs,
                                     .open = open_source,
                                     .learn = ts_csv_learn,
                                     .close = ts_csv_close,
                                     .read = ts_csv_read,
                                     .gather = ts_csv_gather,
                                     .lengths = ts_csv_lengths,
                                     .state_save = ts_source_save_learnt,
                                     .keys = ts_keys_of_csv};
