/* state.c - what is served at a time, made of a file and a delta. */
#include "serve/state_impl.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/dense_columns.h"
#include "base/features.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/tasks.h"
#include "dense/param_optim.h"
#include "io/columns.h"
#include "io/deck.h"
#include "model/graph.h"

/* ---- parts --------------------------------------------------------------- */

ts_err ts_serve_wrong(const ts_serve_file *f, const char *name) {
  return ts_fail(TS_ERR_CKPT,
                 "%s: is damaged: %.200s is missing, or of another "
                 "shape than its deck says",
                 f->path, name);
}

/* The part HEAD NAME, the delta's where that has it, and its file. */
static const ts_serve_entry *find(const ts_serve_state *s, const char *head,
                                  const char *name,
                                  const ts_serve_file **file) {
  const ts_serve_entry *e = NULL;
  *file = &s->delta;
  if (s->delta.data) e = ts_serve_find(&s->delta, head, name);
  if (e) return e;
  *file = &s->file;
  return ts_serve_find(&s->file, head, name);
}

static ts_err text_of(const ts_serve_state *s, const char *name,
                      const char **text) {
  const ts_serve_file *f;
  (void)find(s, "", name, &f);
  return ts_serve_text(f, name, text);
}

ts_err ts_serve_take(const ts_serve_state *s, const char *name, int64_t rows,
                     int64_t cols, float *to) {
  const ts_serve_file *f;
  const ts_serve_entry *e = find(s, "model/", name, &f);
  if (!e || e->rows != rows || e->cols != cols || e->kind > TS_ROWS_BF16)
    return ts_serve_wrong(f, name);
  TS_DO(ts_serve_check(f, e));
  if (cols) /* bf16 rows end with zeros where there are odd numbers of them */
    ts_rows_unpack((ts_rows_kind)e->kind, to, ts_serve_at(f, e), rows,
                   (int32_t)cols);
  else
    ts_to_f32(to, ts_serve_at(f, e), e->kind == TS_ROWS_BF16 ? TS_BF16 : TS_F32,
              rows);
  return TS_OK;
}

/* ---- a delta ------------------------------------------------------------- */

/* Rows of table NAME take the places of the file's, in memory of this state. */
static ts_err lay_over(ts_serve_state *s, const char *name) {
  const ts_serve_file *d = &s->delta;
  const ts_serve_entry *which = ts_serve_find(d, "rows/", name);
  const ts_serve_entry *rows = ts_serve_find(d, "model/", name);
  const ts_serve_entry *all = ts_serve_find(&s->file, "model/", name);
  if (!which) return rows ? ts_serve_wrong(d, name) : TS_OK;
  if (!rows || !all || which->kind != TS_PART_I64 ||
      which->rows != rows->rows || rows->cols != all->cols ||
      rows->kind != all->kind || !rows->cols)
    return ts_serve_wrong(d, name);
  TS_DO(ts_serve_check(d, which));
  TS_DO(ts_serve_check(d, rows));
  const int64_t *at = ts_serve_at(d, which);
  const int64_t bytes =
      ts_rows_bytes((ts_rows_kind)all->kind, (int32_t)all->cols);
  char *to = ts_serve_at(&s->file, all), *from = ts_serve_at(d, rows);
  for (int64_t i = 0; i < which->rows; i++) {
    if (at[i] < 0 || at[i] >= all->rows) return ts_serve_wrong(d, name);
    memcpy(to + at[i] * bytes, from + i * bytes, (size_t)bytes);
  }
  return TS_OK;
}

static ts_err open_files(ts_serve_state *s, const char *path,
                         const ts_serve_state *base) {
  TS_DO(ts_serve_open(&s->file, path));
  s->step = s->file.head.step;
  if (!s->file.head.base) return TS_OK;
  s->delta = s->file;
  s->file = (ts_serve_file){.fd = -1};
  if (!base)
    return ts_fail(TS_ERR_CKPT,
                   "%s: is a delta: open the whole file that it is over, then "
                   "update that by it",
                   path);
  if (base->file.head.seal != s->delta.head.base)
    return ts_fail(TS_ERR_CKPT,
                   "%s: is a delta over another file than %s, which is served",
                   path, base->file.path);
  return ts_serve_open_again(&s->file, &base->file);
}

/* ---- features ------------------------------------------------------------ */

bool ts_serve_rules_of(ts_serve_rules *rules, const char *format) {
  static const struct {
    const char *format;
    ts_serve_rules rules;
  } all[] = {{"csv", TS_SERVE_CSV},
             {"parquet", TS_SERVE_CSV}, /* cells in place of fields */
             {"arrow", TS_SERVE_CSV},
             {"criteo_tsv", TS_SERVE_CRITEO},
             {"dataset", TS_SERVE_NUMBERS},
             {"npy", TS_SERVE_NUMBERS},
             {"synthetic", TS_SERVE_NUMBERS}};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    *rules = all[i].rules;
    if (!strcmp(all[i].format, format)) return true;
  }
  return false;
}

const char *ts_serve_transform(ts_serve_rules rules) {
  return rules == TS_SERVE_CSV      ? NULL
         : rules == TS_SERVE_CRITEO ? "log1p"
                                    : "none";
}

static const char *usual_encoding(const ts_serve_state *s, int32_t f) {
  if (s->rules == TS_SERVE_CRITEO)
    return ts_column_encoding(s->config, f, s->config->data.categorical);
  return s->rules == TS_SERVE_CSV ? ts_column_of_feature(s->config, f).encoding
                                  : ts_column_encoding(s->config, f, "none");
}

static void set_encoding(ts_serve_state *s, int32_t f) {
  static const char *const names[] = {[TS_SERVE_HASH] = "hash",
                                      [TS_SERVE_MODULO] = "modulo",
                                      [TS_SERVE_WORDS] = "vocabulary",
                                      [TS_SERVE_BUCKET] = "bucketise"};
  ts_serve_feature *x = &s->feature[f];
  const char *encoding = usual_encoding(s, f);
  const ts_column_config c = ts_column_of_feature(s->config, f);
  for (int k = TS_SERVE_HASH; k <= TS_SERVE_BUCKET; k++)
    if (!strcmp(encoding, names[k])) x->encoding = (ts_serve_encoding)k;
  x->input = ts_scales_of_feature(s->scales, f);
  if (x->input >= 0) x->encoding = TS_SERVE_BUCKET;
  x->start = c.seed ? ts_mix64((uint64_t)c.seed) : 0;
  if (s->rules == TS_SERVE_CSV) x->start ^= TS_FNV_START;
  x->max_length = c.max_length;
  x->newest = !strcmp(c.truncate, "oldest");
  x->missing_word = !strcmp(c.missing, "word");
  x->is_list = *c.list_separator;
  x->crosses = c.cross.n > 0;
  x->part = ts_time_part_of(c.part);
  x->missing_none = x->is_list || x->encoding == TS_SERVE_MODULO ||
                    x->encoding == TS_SERVE_PLAIN;
}

/* Cells of a column have weights for all tables of it. */
static ts_err set_weighted(ts_serve_state *s) {
  ts_feature_columns m;
  TS_DO(ts_feature_columns_create(&m, s->config));
  for (int32_t f = 0; f < s->n_features; f++)
    for (int32_t k = 0; k < s->n_features && s->feature[f].table->weighted; k++)
      s->feature[k].missing_none |= m.first[k] == m.first[f];
  ts_feature_columns_reset(&m);
  return TS_OK;
}

/* Words are there, each in the text and with its end. */
static ts_err set_words(ts_serve_state *s, int32_t f) {
  ts_serve_feature *x = &s->feature[f];
  char number[16];
  const ts_serve_file *file, *other;
  snprintf(number, sizeof number, "%d", f);
  const ts_serve_entry *at = find(s, "words/", number, &file);
  const ts_serve_entry *text = find(s, "text/", number, &other);
  if (!at || !text || at->kind != TS_PART_I64 || text->kind != TS_PART_BYTES)
    return ts_serve_wrong(&s->file, "the words of a feature");
  TS_DO(ts_serve_check(file, at));
  TS_DO(ts_serve_check(other, text));
  x->at = ts_serve_at(file, at);
  x->text = ts_serve_at(other, text);
  x->n_words = at->rows;
  if (x->n_words && (text->bytes < 1 || x->text[text->bytes - 1]))
    return ts_serve_wrong(other, "the words of a feature");
  for (int64_t i = 0; i < x->n_words; i++)
    if (x->at[i] < 0 || x->at[i] >= text->bytes)
      return ts_serve_wrong(file, "the words of a feature");
  return TS_OK;
}

/* A feature of several tables has weights in each: those behind the first that
 * has some are called f@t (shard/processors.c). */
static ts_err set_positions(ts_serve_state *s, int32_t f) {
  static const char head[] =
      "model/sparse_arch.feature_processor.position_weight.";
  ts_err err = TS_OK;
  ts_serve_feature *x = &s->feature[f];
  const ts_serve_file *file;
  ts_str name = {0};
  bool taken = false;
  if (x->table->max_length < 1) return TS_OK;
  for (int32_t k = 0; k < f; k++)
    taken |= s->feature[k].table->max_length > 0 &&
             !strcmp(s->feature[k].name, x->name);
  TS_TRY(ts_str_append(&name, taken ? "%s@%s" : "%s", x->name, x->table->name));
  const ts_serve_entry *e = find(s, head, name.text, &file);
  if (!e || e->kind != TS_ROWS_F32 || e->cols ||
      e->rows != x->table->max_length)
    TS_TRY(ts_serve_wrong(file, name.text));
  TS_TRY(ts_serve_check(file, e));
  x->position = ts_serve_at(file, e);
done:
  ts_str_reset(&name);
  return err;
}

/* Table T's rows: as many as the deck says, or where that is "auto" as the file
 * has; of a dynamic one its keys, too. */
static ts_err set_table(ts_serve_state *s, int32_t t) {
  ts_err err = TS_OK;
  ts_str name = {0};
  ts_table_config *c = &s->config->tables[t];
  TS_TRY(ts_param_table_name(&name, c));
  const bool dynamic = ts_table_is_dynamic(c);
  if (s->delta.data && !ts_serve_has_others(s, t))
    TS_TRY(lay_over(s, name.text));
  const ts_serve_entry *e = ts_serve_find(&s->file, "model/", name.text);
  if (!e || e->cols != c->dim || e->rows < 1 || e->kind >= TS_ROWS_KINDS ||
      (c->rows != TS_ROWS_AUTO && !dynamic && c->rows != e->rows))
    TS_TRY(ts_serve_wrong(&s->file, name.text));
  const void *rows = ts_serve_at(&s->file, e);
  c->rows = e->rows;
  if (dynamic) TS_TRY(ts_serve_take_keys(s, t, name.text, e, &rows));
  for (int32_t f = 0; f < s->n_features; f++) {
    if (s->feature[f].table != c) continue;
    s->feature[f].rows = rows;
    s->feature[f].keys = dynamic ? &s->dynamic[t].keys : NULL;
    s->feature[f].kind = (ts_rows_kind)e->kind;
  }
done:
  ts_str_reset(&name);
  return err;
}

/* An output that learns what is hidden looks for what comes next. */
static ts_err set_mask(ts_serve_state *s, const ts_task_config *x) {
  const int32_t f =
      x->masked && *x->masked ? ts_feature_find(s->config, x->masked) : -1;
  if (f < 0) return TS_OK;
  s->feature[f].mask = x->mask_id;
  if (x->mask_id >= 0 && x->mask_id < s->feature[f].table->rows) return TS_OK;
  return ts_serve_wrong(&s->file, "deck");
}

/* Features of the parts of a table are given once. */
static void number_given(ts_serve_state *s) {
  ts_serve_feature *x = s->feature;
  for (int32_t f = 0; f < s->n_features; f++) {
    int32_t g = 0;
    if (ts_table_is_first(x[f].table)) {
      x[f].given = s->n_given++;
      continue;
    }
    while (x[g].table->whole != x[f].table->whole ||
           strcmp(x[g].name, x[f].name) != 0)
      g++;
    x[f].given = x[g].given;
  }
}

static ts_err set_features(ts_serve_state *s) {
  const ts_config *c = s->config;
  s->n_features = ts_feature_count(c);
  TS_DO(ts_mem_many(s->feature, s->n_features, MISC));
  for (int32_t f = 0; f < s->n_features; f++)
    s->feature[f].table = ts_feature_table(c, f, &s->feature[f].name);
  number_given(s);
  TS_DO(ts_mem_many(s->dynamic, c->n_tables, MISC));
  for (int32_t t = 0; t < c->n_tables; t++) TS_DO(set_table(s, t));
  const int32_t times = ts_feature_of_times(c);
  if (times >= 0) s->feature[times].is_times = true;
  for (int32_t f = 0; f < s->n_features; f++) s->feature[f].mask = -1;
  for (int32_t k = 0; k < c->model.n_tasks; k++)
    TS_DO(set_mask(s, &c->model.tasks[k]));
  for (int32_t f = 0; f < s->n_features; f++) {
    set_encoding(s, f);
    if (s->feature[f].encoding == TS_SERVE_WORDS) TS_DO(set_words(s, f));
    TS_DO(set_positions(s, f));
  }
  return set_weighted(s);
}

/* ---- the whole ----------------------------------------------------------- */

/* ERR of the deck says in which file that is. */
static ts_err of_file(const ts_serve_state *s, ts_err err) {
  ts_err_record fault;
  if (err != TS_ERR_DECK) return err;
  ts_err_take(&fault);
  return ts_fail(TS_ERR_CKPT, "%s: its deck: %s", s->file.path, fault.text);
}

static ts_err read_deck(ts_serve_state *s) {
  const char *deck, *format, *scales, *negatives;
  TS_DO(text_of(s, "deck", &deck));
  TS_DO(text_of(s, "format", &format));
  TS_DO(text_of(s, "scales", &scales));
  TS_DO(text_of(s, "negatives", &negatives));
  /* A file is only data: no other one is read for it, and nothing of this
   * process's environment. */
  if (!*deck || strstr(deck, "@include") || strstr(deck, "${"))
    return ts_serve_wrong(&s->file, "deck");
  TS_DO(of_file(s, ts_deck_parse(&s->config, deck, "/", NULL, 0)));
  if (!ts_serve_rules_of(&s->rules, format))
    return ts_fail(TS_ERR_CKPT,
                   "%s: is of data of format \"%.80s\", which this version "
                   "does not know",
                   s->file.path, format);
  TS_DO(ts_scales_create(&s->scales, s->config, ts_serve_transform(s->rules)));
  TS_DO(ts_scales_load(s->scales, scales));
  if (s->scales &&
      ts_scales_n_dense(s->scales) != s->config->model.dense_features)
    return ts_serve_wrong(&s->file, "deck");
  s->dense_width = ts_dense_width(s->config);
  s->negatives = strtod(negatives, NULL);
  if (!(s->negatives > 0 && s->negatives <= 1))
    return ts_serve_wrong(&s->file, "negatives");
  return TS_OK;
}

/* The graph is one, and says how many numbers its outputs are. */
static ts_err check_model(ts_serve_state *s) {
  ts_err err = TS_OK;
  ts_graph g = {0};
  const ts_config *c = s->config;
  const ts_model_spec spec = {
      .config = c, .n_features = s->n_features, .batch_max = 1};
  TS_TRY(ts_graph_plan(&g, &spec));
  s->n_outputs = ts_tasks_width(c, c->model.n_tasks);
  TS_TRY(ts_mem_many(s->vector_dim, c->model.n_tasks, MISC));
  for (int32_t k = 0; k < c->model.n_tasks; k++) {
    const ts_value *v = ts_graph_task_value(&g.base, k, TS_TASK_QUERY);
    if (v) s->vector_dim[k] = ts_shape_width(v->shape);
  }
done:
  ts_graph_reset(&g);
  return err;
}

ts_err ts_serve_state_open(ts_serve_state **out, const char *path,
                           const ts_serve_state *base) {
  ts_err err = TS_OK;
  ts_serve_state *s = NULL;
  TS_TRY(ts_mem_alloc(&s, sizeof *s, TS_TAG_MISC));
  s->refs = 1;
  s->file.fd = s->delta.fd = -1;
  TS_TRY(open_files(s, path, base));
  TS_TRY(read_deck(s));
  TS_TRY(set_features(s));
  TS_TRY(of_file(s, check_model(s)));
  *out = s;
  s = NULL;
done:
  ts_serve_state_release(s);
  return err;
}

ts_serve_state *ts_serve_state_hold(ts_serve_state *s) {
  __atomic_add_fetch(&s->refs, 1, __ATOMIC_RELAXED);
  return s;
}

void ts_serve_state_release(ts_serve_state *s) {
  if (!s || __atomic_sub_fetch(&s->refs, 1, __ATOMIC_ACQ_REL)) return;
  for (int32_t t = 0; s->dynamic && t < s->config->n_tables; t++) {
    ts_serve_keys_reset(&s->dynamic[t].keys);
    ts_mem_free(s->dynamic[t].rows);
  }
  ts_serve_close(&s->file);
  ts_serve_close(&s->delta);
  ts_scales_destroy(s->scales);
  ts_deck_destroy(s->config);
  ts_mem_free_all(s->feature, s->vector_dim, s->dynamic, s);
}
