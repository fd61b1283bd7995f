/* vocabulary.c - words that are ids: learnt, and looked up. */
#include "io/vocabulary_impl.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "io/batch_store.h"
#include "io/columns.h"

/* ---- which features have one --------------------------------------------- */

static bool has_words(const ts_config *c, int32_t feature, const char *usual) {
  return !strcmp(usual ? ts_column_encoding(c, feature, usual)
                       : ts_column_of_feature(c, feature).encoding,
                 "vocabulary");
}

/* Features of one column, or of one group, have that of the first of them. */
static ts_err find_groups(ts_vocabularies *v) {
  ts_err err = TS_OK;
  const char **group = NULL;
  ts_feature_columns m;
  TS_DO(ts_feature_columns_create(&m, v->config));
  TS_TRY(ts_mem_many(group, v->n_features, INPUT));
  for (int32_t k = 0; k < v->n_features; k++) {
    group[k] = ts_column_of_feature(v->config, k).group;
    v->again[k] = m.first[k] != k;
    v->whose[k] = *group[k] ? 0 : m.first[k];
    while (*group[k] && v->whose[k] < k &&
           strcmp(group[v->whose[k]], group[k]) != 0)
      v->whose[k]++;
  }
done:
  ts_feature_columns_reset(&m);
  ts_mem_free(group);
  return err;
}

ts_err ts_vocabularies_make(ts_vocabularies **out, const ts_config *c) {
  ts_err err = TS_OK;
  ts_vocabularies *v = NULL;
  TS_TRY(ts_mem_alloc(&v, sizeof *v, TS_TAG_INPUT));
  v->config = c;
  v->n_features = ts_feature_count(c);
  TS_TRY(ts_mem_many(v->of, v->n_features, INPUT));
  TS_TRY(ts_mem_many(v->on, v->n_features, INPUT));
  TS_TRY(ts_mem_many(v->whose, v->n_features, INPUT));
  TS_TRY(ts_mem_many(v->again, v->n_features, INPUT));
  TS_TRY(find_groups(v));
  *out = v;
  v = NULL;
done:
  ts_vocabularies_destroy(v);
  return err;
}

ts_err ts_vocabularies_create(ts_vocabularies **out, const ts_config *c,
                              const char *usual) {
  bool any = false;
  *out = NULL;
  for (int32_t k = 0; k < ts_feature_count(c); k++)
    any |= has_words(c, k, usual);
  if (!any) return TS_OK;
  TS_DO(ts_vocabularies_make(out, c));
  for (int32_t k = 0; k < (*out)->n_features; k++) {
    (*out)->on[k] = has_words(c, k, usual);
    (*out)->of[k].least = ts_column_of_feature(c, k).min_count;
  }
  return TS_OK;
}

void ts_vocabularies_destroy(ts_vocabularies *v) {
  if (!v) return;
  for (int32_t k = 0; v->of && k < v->n_features; k++) {
    ts_word_list_empty(&v->of[k].met);
    ts_mem_free(v->of[k].block);
  }
  ts_words_shared_release(v->shared);
  ts_mem_free_all(v->of, v->on, v->whose, v->again, v);
}

bool ts_vocabularies_have(const ts_vocabularies *v, int32_t feature) {
  return v && v->on[feature];
}

/* ---- learning ------------------------------------------------------------ */

/* One block has all of it: where words begin, how often they were there, and
 * their text. */
ts_err ts_vocabulary_take(ts_vocabulary *v, int64_t least, bool counted) {
  ts_word_list *l = &v->met;
  int64_t n = 0, bytes = 0;
  ts_word_list_settle(l);
  for (int64_t i = 0; i < l->n; i++) {
    if (l->item[i].times < least) continue;
    bytes += (int64_t)strlen(l->item[i].word) + 1;
    n++;
  }
  v->bytes = (size_t)(2 * n) * sizeof(int64_t) + (size_t)bytes + 1;
  TS_DO(ts_mem_alloc(&v->block, v->bytes, TS_TAG_WORDS));
  v->words.n = n;
  ts_vocabulary_lay(v, v->block, counted);
  int64_t *at = v->block;
  char *to = (char *)(at + 2 * n);
  for (int64_t i = 0; i < l->n; i++) {
    if (l->item[i].times < least) continue;
    at[n] = l->item[i].times;
    *at++ = to - v->words.text;
    to = stpcpy(to, l->item[i].word) + 1;
  }
  ts_word_list_empty(l);
  return TS_OK;
}

void ts_vocabulary_lay(ts_vocabulary *v, const void *block, bool counted) {
  const int64_t n = v->words.n, *at = block;
  v->words = (ts_words){.text = (const char *)(at + 2 * n),
                        .at = at,
                        .times = counted ? at + n : NULL,
                        .n = n};
}

int64_t ts_vocabularies_count(const ts_vocabularies *v, int64_t *bytes) {
  int64_t n = 0;
  *bytes = 0;
  for (int32_t k = 0; k < v->n_features; k++) {
    if (!v->on[k] || v->whose[k] != k) continue;
    n += v->of[k].words.n;
    *bytes += (int64_t)v->of[k].bytes;
  }
  return n;
}

ts_err ts_vocabularies_learn(ts_vocabularies *v, int32_t feature,
                             const char *text, size_t n_bytes) {
  if (v->again[feature]) return TS_OK;
  return ts_word_list_add(&v->of[v->whose[feature]].met, text, n_bytes, 1);
}

/* X to TEXT; its length, 0: it is none. */
static size_t write_number(char text[32], int64_t x, bool hex) {
  if (hex && x < 0) return 0;
  return (size_t)snprintf(text, 32, hex ? "%08llx" : "%lld", (long long)x);
}

ts_err ts_vocabularies_learn_number(ts_vocabularies *v, int32_t feature,
                                    int64_t x, bool hex) {
  char text[32];
  const size_t n = write_number(text, x, hex);
  return n ? ts_vocabularies_learn(v, feature, text, n) : TS_OK;
}

/* Rows of a table that stand for a word of each of its features. */
static void note_shared(const ts_vocabularies *v) {
  const char *name, *other;
  for (int32_t k = 1; k < v->n_features; k++) {
    const ts_table_config *t = ts_feature_table(v->config, k, &name);
    if (!v->on[k] || !v->on[k - 1] || v->whose[k] == v->whose[k - 1] ||
        ts_feature_table(v->config, k - 1, &other) != t)
      continue;
    ts_note("table %s: features %s and %s share its rows, and each has words "
            "of its own, so that a row is of several words; the same group = "
            "\"...\" of both in data.columns makes it one",
            t->name, other, name);
    return;
  }
}

ts_err ts_vocabularies_settle(ts_vocabularies *v, ts_comm *comm) {
  for (int32_t k = 0; k < v->n_features; k++) {
    if (!v->on[k] || v->whose[k] != k) continue;
    TS_DO(ts_word_list_share(&v->of[k].met, v->of[k].least, comm));
    TS_DO(ts_agree(comm, ts_vocabulary_take(&v->of[k], v->of[k].least, true)));
  }
  note_shared(v);
  return TS_OK;
}

/* ---- looking up ---------------------------------------------------------- */

int64_t ts_vocabularies_row(const ts_vocabularies *v, int32_t feature,
                            const char *text, size_t n_bytes) {
  const ts_words *w = &v->of[v->whose[feature]].words;
  const size_t n = strnlen(text, n_bytes);
  int64_t low = 0, high = w->n;
  while (low < high) {
    const int64_t mid = (low + high) / 2;
    const char *word = ts_words_at(w, mid);
    const int c = strncmp(word, text, n);
    if (c == 0 && !word[n]) return mid + 1;
    if (c < 0)
      low = mid + 1;
    else
      high = mid;
  }
  return 0;
}

int64_t ts_vocabularies_row_of_number(const ts_vocabularies *v, int32_t feature,
                                      int64_t x, bool hex) {
  char text[32];
  const size_t n = write_number(text, x, hex);
  return n ? ts_vocabularies_row(v, feature, text, n) : 0;
}

bool ts_vocabularies_words(const ts_vocabularies *v, int32_t feature,
                           ts_words *words) {
  if (!ts_vocabularies_have(v, feature)) return false;
  *words = v->of[v->whose[feature]].words;
  return true;
}
