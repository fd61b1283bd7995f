/* checkpoint_words.c - the words that a checkpoint has rows for. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "io/batch_store.h"
#include "io/checkpoint.h"
#include "io/deck.h"

/* A deck of another version that can't be read says nothing. */
ts_err ts_ckpt_recall(ts_config **c, ts_vocabularies **words,
                      const char *path) {
  ts_err err = TS_OK;
  ts_ckpt head = {0};
  *c = NULL;
  *words = NULL;
  TS_TRY(ts_ckpt_peek_weights(&head, path));
  const ts_ckpt_value *deck = ts_ckpt_value_of(&head, "meta/deck");
  const ts_ckpt_value *state = ts_ckpt_value_of(&head, "loader/state");
  /* A file is only data: no other one is read for it. */
  if (!deck || deck->dtype != TS_U8 || strstr(deck->ptr, "@include")) goto done;
  err = ts_deck_parse(c, deck->ptr, "/", NULL, 0);
  if (err == TS_ERR_DECK) {
    ts_err_clear();
    err = TS_OK;
    goto done;
  }
  TS_TRY(err);
  if (state && state->dtype == TS_U8 && state->n)
    TS_TRY(ts_vocabularies_recall(words, *c, state->ptr));
done:
  ts_ckpt_reset(&head);
  return err;
}

/* ---- tessera inspect ----------------------------------------------------- */

/* In quotes where it could not be told from what is around it; a quote is one,
 * or two as CSV's fields in quotes have it.  What could steer a terminal is '?'
 * there. */
static void print_word(const char *word, bool terminal) {
  const size_t n = strlen(word);
  const bool quoted =
      !n || word[0] == ' ' || word[n - 1] == ' ' || strpbrk(word, "\t\"\n\r");
  if (quoted) putchar('"');
  for (const unsigned char *p = (const unsigned char *)word; *p; p++) {
    const bool steers = *p < ' ' || *p == 127;
    if (*p == '"') putchar('"');
    p += p[0] == '"' && p[1] == '"';
    putchar(steers && terminal ? '?' : *p);
  }
  if (quoted) putchar('"');
}

static ts_err no_words(const ts_config *c, const ts_vocabularies *v,
                       const char *path, const char *feature) {
  ts_err err = TS_OK;
  ts_str names = {0};
  const char *name;
  for (int32_t k = 0; c && k < ts_feature_count(c); k++) {
    (void)ts_feature_table(c, k, &name);
    if (ts_vocabularies_have(v, k) && ts_feature_find(c, name) == k)
      TS_TRY(ts_str_append(&names, "%s%s", names.n_bytes ? ", " : "", name));
  }
  TS_THROW(TS_ERR_USAGE, "--vocabulary: %s has no words of feature \"%s\"%s%s",
           path, feature, names.n_bytes ? ", but of: " : ", nor of any other",
           names.n_bytes ? names.text : "");
done:
  ts_str_reset(&names);
  return err;
}

ts_err ts_inspect_words(const char *path, const char *feature) {
  ts_err err = TS_OK;
  ts_config *c = NULL;
  ts_vocabularies *v = NULL;
  ts_words words = {0};
  TS_TRY(ts_ckpt_recall(&c, &v, path));
  const int32_t k = c ? ts_feature_find(c, feature) : -1;
  if (k < 0 || !ts_vocabularies_words(v, k, &words))
    TS_TRY(no_words(c, v, path, feature));
  for (int64_t i = 0; i < words.n; i++) {
    print_word(ts_words_at(&words, i), isatty(STDOUT_FILENO));
    if (words.times)
      printf("\t%lld\n", (long long)words.times[i]);
    else
      printf("\t\n");
  }
  if (fflush(stdout)) TS_TRY(ts_fail_errno(TS_ERR_IO, "standard output"));
done:
  ts_vocabularies_destroy(v);
  ts_deck_destroy(c);
  return err;
}
