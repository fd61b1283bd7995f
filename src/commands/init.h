/* init.h - what `tessera init` takes the columns of a file for; private to
 * init*.c.  All of it is Local. */
#pragma once

#include "commands/commands.h"
#include "io/csv_survey.h"

typedef enum {
  AS_LABEL,
  AS_DENSE,
  AS_WORDS,
  AS_LISTS, /* of words */
  AS_TIME,
  AS_NOTHING
} ts_use;

typedef struct ts_choice {
  ts_use use;
  const char *why; /* static */
} ts_choice;

typedef struct ts_init {
  const ts_args *args;
  ts_csv_survey look;
  ts_choice *choices; /* (n_columns) */
  int n_dense, n_words, n_lists;
  const char *time; /* a column; NULL: there is none */
  ts_str deck;
} ts_init;

/* Fills choices and what is counted of them; DATA errors where the label, or
 * all columns together, make no deck. */
ts_err ts_init_choose(ts_init *);
/* Words, or lists of them, have a table. */
static inline bool ts_init_is_looked_up(const ts_init *x, int32_t column) {
  const ts_use use = x->choices[column].use;
  return use == AS_WORDS || use == AS_LISTS;
}
