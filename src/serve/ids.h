/* ids.h - the row of one id, as it stands in the training data.  Local. */
#pragma once

#include "base/str.h"
#include "serve/state.h"

/* An id, as it is given: a text, or a number where that is NULL. */
typedef struct ts_given {
  const char *text;
  size_t n_bytes;
  int64_t number;
  char digits[24]; /* of a number that has to be a text */
} ts_given;

enum { TS_NO_ID = -1, TS_BAD_ID = -2, TS_NO_ROW = -3 };

/* A missing cell of CSV. */
bool ts_given_is_missing(const ts_config *, ts_given *);
/* X's row, which may be beyond the table; less than 0: NO_ID there is none,
 * BAD_ID it can't be read, NO_ROW it is a number below all rows.  SCRATCH is of
 * use to words of several columns. */
int64_t ts_given_row(const ts_serve_state *, const ts_serve_feature *x,
                     ts_given *, ts_str *scratch);
/* What a missing id is where that is a word, too. */
int64_t ts_missing_row(const ts_serve_feature *x);
