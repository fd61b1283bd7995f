/* schema.h - the schema of decks: one row per key.  It checks decks, prints
 * `help deck`, doc/deck.md and deck.effective, so the three can't differ.
 * All of it is Local. */
#pragma once

#include "base/config.h"
#include "base/key.h"

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

/* LIST is what the deck has: the tasks are model.tasks or model.outputs. */
bool ts_schema_list_is_on(const ts_key_list *list, const ts_config *);

/* Row of PATH in SCOPE, NULL where there is none. */
const ts_key *ts_schema_find(ts_scope, const char *path);
/* Some key of SCOPE begins with PATH + "." */
int ts_schema_is_group(ts_scope, const char *path);
/* The key nearest in spelling, NULL when none is near. */
const char *ts_schema_nearest(ts_scope, const char *path);
