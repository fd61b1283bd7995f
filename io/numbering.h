/* numbering.h - words numbered from 0 on in the order in which they are met
 * first.  A word may have any bytes.  All of it is Local. */
#pragma once

#include "base/str.h"

/* {0} is the empty one. */
typedef struct ts_numbering {
  int32_t n;   /* words */
  ts_str text; /* one after the other, a NUL behind each */
  int64_t *at; /* (capacity + 1) where each begins in TEXT */
  /* (n_slots, a power of two) number + 1 in the low half, in the high one that
   * of the word's hash, so that others are seldom looked at; 0: free */
  uint64_t *slots;
  int64_t n_slots; /* at least twice the words */
  int64_t capacity;
} ts_numbering;

/* *NUMBER of WORD, which is a new one where it is the old X->n. */
ts_err ts_numbering_of(ts_numbering *x, const char *word, size_t n_bytes,
                       int32_t *number);
const char *ts_numbering_word(const ts_numbering *, int32_t number);
size_t ts_numbering_bytes(const ts_numbering *, int32_t number);
/* No more words: what finds them is freed. */
void ts_numbering_settle(ts_numbering *);
void ts_numbering_reset(ts_numbering *);
