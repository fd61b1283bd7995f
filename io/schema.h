/* schema.h - the schema of decks: one row per key.  It checks decks, prints
 * `help deck`, doc/deck.md and deck.effective, so the three can't differ.
 * All of it is Local. */
#pragma once

#include <stddef.h>

#include "base/config.h"

typedef enum {
  TS_KEY_STRING, /* char * */
  TS_KEY_PATH,   /* char *, made absolute */
  TS_KEY_INT,    /* int64_t */
  TS_KEY_INT32,
  TS_KEY_COUNT, /* int32_t; "auto" is 0 */
  TS_KEY_FLOAT, /* double */
  TS_KEY_BOOL,
  TS_KEY_TIME,    /* double, seconds; written hh:mm:ss */
  TS_KEY_CHOICE,  /* enum, by position in `choices` */
  TS_KEY_STRINGS, /* ts_strings; a single string is a list of one */
  TS_KEY_PATHS,   /* ts_strings, absolute */
  TS_KEY_INTS,    /* ts_ints; a single number is a list of one */
  TS_KEY_ROWS,    /* int64_t of a table; a list gives one per table; "auto" is
                     TS_ROWS_AUTO */
  TS_KEY_RANKS,   /* int32_t: true is 0, false 1 */
  TS_KEY_LATER    /* known, not in this version */
} ts_key_kind;

/* Where a row of the schema applies. */
typedef enum {
  TS_SCOPE_DECK,     /* path from the deck's root */
  TS_SCOPE_TABLE,    /* within an element of tables, and table_defaults */
  TS_SCOPE_OVERRIDE, /* within an element of optimizer.overrides */
  TS_SCOPE_TASK,     /* within an element of model.tasks */
  TS_SCOPE_COLUMN,   /* of data.columns */
  TS_SCOPE_GROUP,    /* of dense.groups */
  TS_SCOPE_FORWARD,  /* of dense.forward_prefetch */
  TS_SCOPE_BACKWARD  /* of dense.backward_prefetch */
} ts_scope;

typedef struct ts_key {
  ts_scope scope;
  const char *path; /* "run.seed"; in other scopes "optimizer.lr" */
  ts_key_kind kind;
  size_t offset;        /* into the scope's struct */
  const char *fallback; /* default, as written in a deck; NULL: required */
  const char *unit;
  double min, max;     /* numbers; min > max: no limits */
  const char *choices; /* "a|b|-c|?d": -c is known and not in this version;
                          ?d is a backend that tests may add;
                          of a path: words that are not taken for paths */
  const char *help;
} ts_key;

extern const ts_key ts_schema[];
extern const int ts_schema_n;

/* Lists of groups, but for tables, which have code of their own. */
typedef struct ts_key_list {
  const char *path;
  ts_scope scope;  /* of an element's keys */
  size_t items, n; /* offsets into ts_config: the array; int32_t */
  size_t size;     /* of an element */
} ts_key_list;

extern const ts_key_list ts_schema_lists[];
extern const int ts_schema_n_lists;
/* The list of PATH, NULL where there is none. */
const ts_key_list *ts_schema_list(const char *path);

/* Row of PATH in SCOPE, NULL where there is none. */
const ts_key *ts_schema_find(ts_scope, const char *path);
/* Some key of SCOPE begins with PATH + "." */
int ts_schema_is_group(ts_scope, const char *path);
/* The key nearest in spelling, NULL when none is near. */
const char *ts_schema_nearest(ts_scope, const char *path);
