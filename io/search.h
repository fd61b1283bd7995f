/* search.h - a space of decks: which keys are searched, and over what.
 *
 * A space file is written as decks are; where a deck has a key's value it has
 * a range, { from = 1e-4; to = 1e-1; scale = "log"; }, or a list of choices.
 * All of it is Local. */
#pragma once

#include "base/config.h"
#include "base/str.h"

typedef struct ts_search_key {
  char *path;            /* "optimizer.lr" */
  ts_strings values;     /* choices, as --set takes them; none: a range */
  double from, to, step; /* step 0: every number between */
  bool log, whole;
} ts_search_key;

typedef struct ts_search {
  ts_search_key *key;
  int32_t n;
} ts_search;

/* Reads the space PATH of the deck DECK with SETS.  All errors are reported at
 * once, as a deck's are; each end of a range and each choice is one that the
 * deck takes. */
ts_err ts_search_read(ts_search *, const char *path, const char *deck,
                      const char *const *sets, int n_sets);
void ts_search_reset(ts_search *);

/* Appends key K's value in TRIAL: it depends on (seed, trial, k) alone. */
ts_err ts_search_draw(ts_str *, const ts_search *, int32_t k, uint64_t seed,
                      int64_t trial);
/* Appends the space in one form, a line a key. */
ts_err ts_search_print(ts_str *, const ts_search *);
