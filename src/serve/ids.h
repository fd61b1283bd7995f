/* ids.h - the row of one id, as it stands in the training data.  Local. */
#pragma once

#include "base/str.h"
#include "serve/state.h"

typedef enum { TS_AN_ID, TS_NO_ID, TS_BAD_ID } ts_given_is;

/* An id, as it is given: a text, or a number where that is NULL. */
typedef struct ts_given {
  const char *text;
  size_t n_bytes;
  int64_t number;
  ts_given_is is;
  char digits[24]; /* of a number that has to be a text */
} ts_given;

/* A missing cell of CSV. */
bool ts_given_is_missing(const ts_config *, ts_given *);
/* X's row, which may be beyond the table, or less than 0; of a dynamic table
 * the id, any number.  IS becomes NO_ID where there is none, BAD_ID where it
 * can't be read.  SCRATCH is of use to words of several columns. */
int64_t ts_given_row(const ts_serve_state *, const ts_serve_feature *x,
                     ts_given *, ts_str *scratch);
/* *ROW: the row of a missing id, where missing counts as a word of its own;
 * false: X's ids are no words. */
bool ts_missing_row(const ts_serve_feature *x, int64_t *row);
