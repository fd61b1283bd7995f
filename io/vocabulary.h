/* vocabulary.h - words that are ids, whatever format they stand in: learnt from
 * the samples that are trained on, kept in the checkpoint with how often each
 * was there, and looked up as samples are read.  Row 0 is for unknown and
 * missing ones, the words' rows are from 1 on, in sorted order.
 * Functions are Local unless they say Collective. */
#pragma once

#include "base/config.h"
#include "base/str.h"
#include "runtime/comm.h"

/* Of all features of a source. */
typedef struct ts_vocabularies ts_vocabularies;

/* Words that are a feature's ids, sorted: the row of the I-th is I + 1. */
typedef struct ts_words {
  const char *text;
  const int64_t *at;    /* (n) where each begins in TEXT */
  const int64_t *times; /* (n) it was there; NULL: not known */
  int64_t n;
} ts_words;

static inline const char *ts_words_at(const ts_words *w, int64_t i) {
  return w->text + w->at[i];
}

/* For the features whose encoding is a vocabulary: by their columns, else by
 * USUAL, NULL: as CSV has it.  *V: NULL where there are none. */
ts_err ts_vocabularies_create(ts_vocabularies **v, const ts_config *,
                              const char *usual);
void ts_vocabularies_destroy(ts_vocabularies *);
/* FEATURE's ids are words; false of none at all, too. */
bool ts_vocabularies_have(const ts_vocabularies *, int32_t feature);

/* A word of FEATURE was met: TEXT up to its first NUL, N_BYTES at most.  Of the
 * features of one column the first alone counts. */
ts_err ts_vocabularies_learn(ts_vocabularies *, int32_t feature,
                             const char *text, size_t n_bytes);
/* X, or less than 0 with HEX: nothing, as it is written: in decimal, or with
 * HEX in eight digits or more. */
ts_err ts_vocabularies_learn_number(ts_vocabularies *, int32_t feature,
                                    int64_t x, bool hex);
/* What all ranks have met is what they know.  Collective. */
ts_err ts_vocabularies_settle(ts_vocabularies *, ts_comm *);

/* Once they are learnt or loaded: those of a node's ranks have one copy.
 * NULL is fine.  Collective. */
ts_err ts_vocabularies_share(ts_vocabularies *, ts_comm *);
/* All words, and the bytes that they take. */
int64_t ts_vocabularies_count(const ts_vocabularies *, int64_t *bytes);

int64_t ts_vocabularies_row(const ts_vocabularies *, int32_t feature,
                            const char *text, size_t n_bytes);
int64_t ts_vocabularies_row_of_number(const ts_vocabularies *, int32_t feature,
                                      int64_t x, bool hex);
/* False where FEATURE's ids are no words; they stay the vocabularies'. */
bool ts_vocabularies_words(const ts_vocabularies *, int32_t feature,
                           ts_words *);

/* ---- vocabulary_state.c: the text that a checkpoint keeps -----------------
 */

ts_err ts_vocabularies_save(const ts_vocabularies *, ts_str *text);
/* STATE: from where it has vocabularies on, or the scales before them. */
ts_err ts_vocabularies_load(ts_vocabularies *, const char *state);
/* Those that STATE has, of a run with the deck C, whose files need not be there
 * any more; NULL where it has none. */
ts_err ts_vocabularies_recall(ts_vocabularies **, const ts_config *c,
                              const char *state);
