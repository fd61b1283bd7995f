/* init_tables.c - rows of tables whose init.kind is "file". */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "dense/param_optim.h"
#include "io/batch_store.h"
#include "io/deck.h"
#include "io/tensors.h"
#include "io/vectors.h"
#include "train/planning.h"

/* A table whose rows are words'. */
typedef struct ts_naming {
  const ts_table_config *table;
  ts_ckpt *ckpt;
  const ts_ckpt_item *item;
  ts_words words;
  bool *found; /* (words.n) */
  float *x;    /* (dim) */
  void *room;  /* a row of the table's type */
} ts_naming;

/* ---- by word ------------------------------------------------------------- */

static bool same_words(const ts_words *a, const ts_words *b) {
  bool same = a->n == b->n;
  for (int64_t i = 0; same && i < a->n; i++)
    same = !strcmp(ts_words_at(a, i), ts_words_at(b, i));
  return same;
}

/* The words of TABLE, whose features are those from FIRST on. */
static ts_err words_of(ts_words *words, const ts_source *train,
                       const ts_table_config *table, int32_t first) {
  ts_words more;
  for (int32_t i = 0; i < table->features.n; i++) {
    if (!ts_source_words(train, first + i, i ? &more : words))
      return ts_fail(TS_ERR_DECK,
                     "table %s: init.path = %s has rows by word, and the "
                     "table's ids are no words: give encoding \"vocabulary\", "
                     "or rows by number (.npy, .safetensors)",
                     table->name, table->init_path);
    if (i && !same_words(words, &more))
      return ts_fail(TS_ERR_DECK,
                     "table %s: init.path = %s has rows by word, and a row is "
                     "of another word for each of the table's features: give "
                     "their columns one group, or each feature a table",
                     table->name, table->init_path);
  }
  return TS_OK;
}

/* -1: there is no such word. */
static int64_t find(const ts_words *words, const char *word) {
  int64_t a = 0, z = words->n;
  while (a < z) {
    const int64_t m = a + (z - a) / 2;
    const int c = strcmp(ts_words_at(words, m), word);
    if (c == 0) return m;
    if (c < 0)
      a = m + 1;
    else
      z = m;
  }
  return -1;
}

/* The first of equal words counts. */
static ts_err take_words(ts_naming *t, ts_vectors *v, int64_t *n) {
  const char *word;
  for (;;) {
    ts_watch_beat();
    TS_DO(ts_vectors_next(v, &word));
    if (!word) return TS_OK;
    const int64_t i = find(&t->words, word);
    if (i < 0 || t->found[i]) continue;
    t->found[i] = true;
    ++*n;
    if (!ts_ckpt_has_row(t->item, i + 1)) continue;
    TS_DO(ts_vectors_numbers(v, t->x));
    TS_DO(ts_ckpt_put_row(t->ckpt, t->item, i + 1, t->x, t->room));
  }
}

static ts_err init_by_word(ts_naming *t, const ts_source *train,
                           int32_t first) {
  ts_err err = TS_OK;
  ts_vectors *v = NULL;
  int64_t n = 0;
  char has[32], wants[32];
  TS_TRY(words_of(&t->words, train, t->table, first));
  TS_TRY(ts_vectors_open(&v, t->table->init_path, t->table->dim));
  TS_TRY(ts_mem_many(t->found, t->words.n, CHECKPOINT));
  TS_TRY(ts_mem_many(t->x, t->table->dim, CHECKPOINT));
  TS_TRY(ts_mem_alloc(&t->room,
                      (size_t)ts_row_bytes(t->item->dtype, t->item->cols),
                      TS_TAG_CHECKPOINT));
  TS_TRY(take_words(t, v, &n));
  ts_info("table %s: %s of its %s words are in %s; the other rows are drawn "
          "from the seed",
          t->table->name, ts_str_count(has, n), ts_str_count(wants, t->words.n),
          t->table->init_path);
done:
  ts_vectors_close(v);
  ts_mem_free_all(t->found, t->x, t->room);
  return err;
}

/* ---- by number ----------------------------------------------------------- */

static ts_err init_by_number(const ts_naming *t) {
  int64_t n;
  char has[32], wants[32];
  const ts_table_config *c = t->table;
  TS_DO(ts_ckpt_load_array(t->ckpt, t->item, c->init_path, &n));
  ts_info("table %s: %s of its %s rows are those of %s%s", c->name,
          ts_str_count(has, n), ts_str_count(wants, c->rows), c->init_path,
          n < c->rows ? "; the others are drawn from the seed" : "");
  return TS_OK;
}

/* ---- tables -------------------------------------------------------------- */

static bool is_of_file(const ts_table_config *c) {
  return c->init_kind && !strcmp(c->init_kind, "file") && !c->is_wide;
}

static ts_err init_table(ts_trainer *t, ts_ckpt *ckpt, const ts_source *train,
                         const ts_table_config *c, int32_t first) {
  ts_err err = TS_OK;
  ts_str name = {0};
  ts_naming x = {.table = c, .ckpt = ckpt};
  TS_TRY(ts_param_table_name(&name, c));
  x.item = ts_trainer_item(ckpt, name.text);
  TS_TRY(ts_path_is_array(c->init_path) ? init_by_number(&x)
                                        : init_by_word(&x, train, first));
done:
  ts_str_reset(&name);
  return ts_settle(t, err);
}

ts_err ts_trainer_init_tables(ts_trainer *t, const ts_source *train) {
  ts_err err = TS_OK;
  ts_ckpt ckpt = {0};
  const ts_config *c = t->config;
  bool any = false;
  for (int32_t i = 0; i < c->n_tables; i++) any |= is_of_file(&c->tables[i]);
  if (!any) return TS_OK;
  TS_TRY(ts_trainer_describe_weights(t, &ckpt, false));
  for (int32_t i = 0, first = 0; i < c->n_tables; i++) {
    if (is_of_file(&c->tables[i]))
      TS_TRY(init_table(t, &ckpt, train, &c->tables[i], first));
    first += c->tables[i].features.n;
  }
  TS_TRY(ts_settle(t, ts_ebc_reload(t->ebc)));
  ts_parallel_touch(t->dense);
done:
  ts_ckpt_reset(&ckpt);
  return err;
}
