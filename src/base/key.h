/* key.h - what is to be known of a key of the deck: the schema's rows
 * (io/schema.h), and those that a kind of layer has (model/layer.h).
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
  TS_KEY_FLOATS,  /* ts_floats; the same */
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
  TS_SCOPE_BACKWARD, /* of dense.backward_prefetch */
  TS_SCOPE_OUTPUT,   /* of model.outputs */
  TS_SCOPE_LAYER     /* of model.layers; or of a kind of layer alone */
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
