/* vocabulary_impl.h - inside vocabularies; private to the vocabulary files.
 * All of it is Local. */
#pragma once

#include "io/vocabulary.h"
#include "io/word_list.h"

typedef struct ts_vocabulary {
  ts_word_list met; /* while they are learnt */
  int64_t least;    /* times that a word is there */
  void *block; /* that WORDS are in, of BYTES; NULL: in what a node shares */
  size_t bytes;
  ts_words words;
} ts_vocabulary;

struct ts_words_shared;

struct ts_vocabularies {
  const ts_config *config;
  int32_t n_features;
  ts_vocabulary *of; /* (n_features), some of which are other features', too */
  int32_t *whose;    /* (n_features) of which of them each has */
  bool *again;       /* (n_features) an earlier one has the same column */
  bool *on;          /* (n_features) */
  struct ts_words_shared *shared; /* has the words of all; NULL: blocks have */
};

/* None of them on. */
ts_err ts_vocabularies_make(ts_vocabularies **, const ts_config *);
/* The words that are met LEAST times or more, sorted, become V's.  Where
 * COUNTED is false how often they were there is not known. */
ts_err ts_vocabulary_take(ts_vocabulary *v, int64_t least, bool counted);
/* V's words are in BLOCK, which is as V's own. */
void ts_vocabulary_lay(ts_vocabulary *v, const void *block, bool counted);

/* vocabulary_share.c: once for each that has it. */
void ts_words_shared_release(struct ts_words_shared *);
