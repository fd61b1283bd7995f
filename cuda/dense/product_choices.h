/* product_choices.h - which algorithm each matrix product of this process
 * has, so that a run that is resumed goes on with the same sums.
 *
 * A product is known by a text (its key: sizes, types, what is fused), an
 * algorithm by the words that the library gave for it.  As text they are bound
 * to their maker, the library's version and the GPU.  Plain C: it is tested
 * without a GPU.  One thread.  All of it is Local. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

enum { TS_CHOICE_KEY = 160, TS_CHOICE_WORDS = 8 };

typedef struct ts_choice {
  char key[TS_CHOICE_KEY];
  bool none; /* the library has nothing for it */
  bool used; /* looked for or added by a product, not only taken from a text */
  uint64_t algo[TS_CHOICE_WORDS];
} ts_choice;

/* NULL: not chosen yet.  Valid until the next add or take. */
const ts_choice *ts_choice_find(const char *key);
ts_err ts_choice_add(const ts_choice *); /* or in place of one */
/* Grows with each take: what was chosen before is to be looked up again. */
uint64_t ts_choices_version(void);
void ts_choices_reset(void);

/* The name of an "epilogue" of keys. */
typedef struct ts_choice_kind {
  int epilogue;
  const char *name;
} ts_choice_kind;
/* Appends for how many of the used products the library has no algorithm, by
 * kind (KINDS ends with a NULL name); nothing where it has all. */
ts_err ts_choices_unfused(ts_str *text, const ts_choice_kind *kinds);

/* All of them, by key; nothing is appended where there are none. */
ts_err ts_choices_print(ts_str *text, const char *maker);
/* Products look into TEXT first from now on.  A text of another maker, or a
 * damaged one, is left out with a note. */
ts_err ts_choices_take(const char *text, const char *maker);
