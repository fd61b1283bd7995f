/* write_list.c - the parts of a file that is served. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/features.h"
#include "base/mem.h"
#include "dense/param_optim.h"
#include "io/deck.h"
#include "serve/write_impl.h"

static ts_err add(ts_serve_writer *w, const ts_part *like, const char *head,
                  const char *name) {
  ts_str full = {0};
  if (w->n == w->room) {
    const int32_t more = 2 * w->room + 64;
    TS_DO(ts_mem_extend(&w->item, w->room, more, sizeof *w->item,
                        TS_TAG_CHECKPOINT));
    w->room = more;
  }
  TS_DO(ts_str_append(&full, "%s%s", head, name));
  w->item[w->n] = *like;
  w->item[w->n++].name = full.text;
  return TS_OK;
}

ts_err ts_serve_list_data(ts_serve_writer *w, const char *head,
                          const char *name, uint32_t kind, const void *data,
                          int64_t n) {
  const ts_part p = {.data = data, .entry = {.rows = n, .kind = kind}};
  return add(w, &p, head, name);
}

static ts_err add_text(ts_serve_writer *w, const char *name, const char *text) {
  return ts_serve_list_data(w, "", name, TS_PART_BYTES, text,
                            (int64_t)strlen(text) + 1);
}

/* Words of each feature by its number. */
static ts_err add_words(ts_serve_writer *w) {
  for (int32_t f = 0; f < ts_feature_count(w->out->config); f++) {
    char number[16];
    ts_words words;
    if (!w->out->words || !ts_vocabularies_words(w->out->words, f, &words))
      continue;
    const char *last = words.n ? ts_words_at(&words, words.n - 1) : NULL;
    const int64_t bytes = last ? last + strlen(last) + 1 - words.text : 0;
    snprintf(number, sizeof number, "%d", f);
    TS_DO(ts_serve_list_data(w, "words/", number, TS_PART_I64, words.at,
                             words.n));
    TS_DO(ts_serve_list_data(w, "text/", number, TS_PART_BYTES, words.text,
                             bytes));
  }
  return TS_OK;
}

/* *TABLE: the number of whose rows NAME is; -1: none's. */
static ts_err find_table(int32_t *table, const ts_config *c, const char *name) {
  *table = -1;
  for (int32_t t = 0; t < c->n_tables && *table < 0; t++) {
    ts_str own = {0};
    const ts_err err = ts_param_table_name(&own, &c->tables[t]);
    if (err == TS_OK && !strcmp(own.text, name)) *table = t;
    ts_str_reset(&own);
    TS_DO(err);
  }
  return TS_OK;
}

static ts_err check_table(const ts_table_config *x, const ts_part_keys *k,
                          const ts_tensor_out *t) {
  const int64_t rows = k->key ? k->n : x->rows;
  if (x->dim == t->cols && (rows == TS_ROWS_AUTO || rows == t->rows))
    return TS_OK;
  return ts_fail(
      TS_ERR_CKPT,
      "table %s has %lld rows of %lld numbers in the checkpoint, and "
      "%lld of %d in the deck",
      x->name, (long long)t->rows, (long long)t->cols, (long long)rows, x->dim);
}

static ts_err add_tensors(ts_serve_writer *w) {
  const ts_tensors_out *m = w->out->model;
  for (int32_t i = 0; i < m->n; i++) {
    const ts_tensor_out *t = &m->item[i];
    ts_part p = {.tensor = t, .entry = {.rows = t->rows, .cols = t->cols}};
    int32_t x;
    if (ts_serve_is_ids(t)) continue;
    TS_DO(find_table(&x, w->out->config, t->name));
    p.is_table = x >= 0;
    if (p.is_table) {
      TS_DO(check_table(&w->out->config->tables[x], &w->keys[x], t));
      p.key = w->keys[x].key;
      p.entry.rows += p.key != NULL;
    }
    p.entry.kind = p.is_table ? w->out->tables
                   : t->cols  ? w->out->dense
                              : TS_ROWS_F32;
    TS_DO(add(w, &p, "model/", t->name));
  }
  return TS_OK;
}

static int by_name(const void *a, const void *b) {
  return strcmp(((const ts_part *)a)->name, ((const ts_part *)b)->name);
}

ts_err ts_serve_list(ts_serve_writer *w) {
  TS_DO(ts_deck_print(&w->deck, w->out->config));
  TS_DO(add_text(w, "deck", w->deck.text));
  TS_DO(add_text(w, "format", w->out->format));
  TS_DO(add_text(w, "scales", w->out->scales));
  snprintf(w->negatives, sizeof w->negatives, "%.17g", w->out->negatives);
  TS_DO(add_text(w, "negatives", w->negatives));
  TS_DO(add_words(w));
  TS_DO(ts_serve_list_keys(w));
  TS_DO(add_tensors(w));
  qsort(w->item, (size_t)w->n, sizeof *w->item, by_name);
  return ts_mem_array(&w->index, 2 * (int64_t)w->n, sizeof *w->index,
                      TS_TAG_CHECKPOINT);
}
