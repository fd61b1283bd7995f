/* columns_rig.h - a deck with data.columns, and its batch as a text. */
#pragma once

#include "base/mem.h"
#include "base/str.h"
#include "io/batch_store.h"
#include "io/deck.h"
#include "tests/support/folder.h"

static ts_config *c;
static ts_source *s;
static ts_batch_store *b;
static ts_str said;
static const char *one_set; /* of the decks to come; NULL: nothing */

static inline void write_file(const char *name, const char *text) {
  char path[96];
  ck_assert_ok(ts_comm_barrier(f.comm)); /* nobody reads the one before it */
  snprintf(path, sizeof path, "%s/%s", dir, name);
  FILE *file = f.rank == 0 ? fopen(path, "w") : NULL;
  ck_assert(f.rank != 0 || (file && fputs(text, file) >= 0));
  ck_assert(f.rank != 0 || fclose(file) == 0);
  ck_assert_ok(ts_comm_barrier(f.comm));
}

/* A deck with those COLUMNS, tables of the FEATURES and N_DENSE numbers. */
static inline ts_err take_deck(const char *data, const char *columns,
                               const char *tables, int n_dense) {
  char text[4096];
  snprintf(text, sizeof text,
           "run = { steps = 1; };\n"
           "data = { global_batch = 4; %s\n columns = ( %s ); };\n"
           "tables = ( %s );\n"
           "model = { dense_features = %d;%s over_arch = [1]; };\n",
           data, columns, tables, n_dense, n_dense ? " dense_arch = [4];" : "");
  c = NULL;
  return ts_deck_parse(&c, text, dir, &one_set, one_set != NULL);
}

#define CSV "train = \"a.csv\"; format = \"csv\";"
#define TABLE(rows, of)                                                        \
  "{ name = \"" of "\"; rows = " #rows "; dim = 4; features = \"" of "\"; }"

static inline ts_err open_it(ts_split split) {
  s = NULL;
  return ts_source_open(&s, c, split, NULL, f.comm);
}

static inline ts_err read_all(void) {
  b = NULL;
  ck_assert_ok(ts_batch_store_create(&b, c, NULL));
  return s->ops->read(s, b, 0, (int32_t)s->info.n_samples);
}

static inline void close_it(void) {
  ts_batch_store_destroy(b);
  ts_source_close(s);
  ts_deck_destroy(c);
  ts_str_reset(&said);
  b = NULL;
  s = NULL;
}

static inline void say(const char *text) {
  ck_assert_ok(ts_str_append_bytes(&said, text, strlen(text)));
}

static inline void say_bag(const ts_jagged *j, int32_t sample, int64_t *at) {
  char text[32];
  const int64_t n = ts_jagged_length(j, sample);
  say(" (");
  for (int64_t m = 0; m < n; m++) {
    snprintf(text, sizeof text, "%s%lld", m ? "," : "",
             (long long)j->ids[(*at)++]);
    say(text);
  }
  say(")");
}

/* The batch: for each sample its label, weight, numbers, and each bag. */
static inline const char *batch(void) {
  const ts_batch *x = ts_batch_store_batch(b);
  char text[64];
  int64_t at[8] = {0};
  said.n_bytes = 0;
  for (int32_t i = 0; i < x->n; i++) {
    snprintf(text, sizeof text, "%s%g", i ? "; " : "",
             (double)x->labels[(int64_t)i * x->n_tasks]);
    say(text);
    if (x->weights)
      snprintf(text, sizeof text, " *%g", (double)x->weights[i]), say(text);
    for (int32_t d = 0; d < x->n_dense; d++) {
      const double number = (double)x->dense[(int64_t)i * x->n_dense + d];
      snprintf(text, sizeof text, " %.5g", number);
      say(text);
    }
    for (int32_t k = 0; k < x->kjt.n_features; k++)
      say_bag(&x->kjt.features[k], i, &at[k]);
  }
  return said.text;
}

/* S once more, from what a checkpoint keeps of it: its state in said. */
static inline void open_again(void) {
  ts_source *first = s;
  said.n_bytes = 0;
  ck_assert_ok(s->ops->state_save(s, &said));
  ck_assert_ok(ts_source_open(&s, c, TS_SPLIT_EVAL, said.text, f.comm));
  ts_source_close(first);
}

/* FEATURE's words, and how often each was there. */
static inline const char *words_of(int32_t feature) {
  ts_words w;
  char text[64];
  said.n_bytes = 0;
  ck_assert(ts_source_words(s, feature, &w));
  for (int64_t i = 0; i < w.n; i++) {
    snprintf(text, sizeof text, "%s%s*%lld", i ? " " : "", ts_words_at(&w, i),
             w.times ? (long long)w.times[i] : -1LL);
    say(text);
  }
  return said.text;
}

#define NUMBER(of) "{ name = \"" of "\"; kind = \"dense\"; }"
