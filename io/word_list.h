/* word_list.h - words as they are met, and how often: of vocabularies, and of
 * columns by which samples are told apart.  Repeats are removed when the list
 * is full, so it takes about twice the room of the different ones. Functions
 * are Local unless they say Collective. */
#pragma once

#include "runtime/comm.h"

typedef struct ts_met {
  char *word;
  int64_t times;
} ts_met;

typedef struct ts_word_list {
  ts_met *item; /* (n) */
  int64_t n, capacity;
} ts_word_list;

/* TEXT up to its first NUL, N_BYTES at most. */
ts_err ts_word_list_add(ts_word_list *, const char *text, size_t n_bytes,
                        int64_t times);
/* Sorts by word, and removes repeats. */
void ts_word_list_settle(ts_word_list *);
/* All ranks' words that are there LEAST times on all of them together, each
 * once, on each rank; not settled.  Errors are agreed.  Collective. */
ts_err ts_word_list_share(ts_word_list *, int64_t least, ts_comm *);
void ts_word_list_empty(ts_word_list *);
