/* csv_survey.h - what the columns of a CSV file are, from one pass over it.
 * All of it is Local. */
#pragma once

#include "base/str.h"

typedef struct ts_column {
  char *name;
  int64_t n_missing, n_numbers; /* fields that are empty or a marker; numbers */
  int64_t n_whole;              /* of the numbers */
  int64_t n_listed;             /* fields with a | in them */
  double min, max;              /* of the numbers */
  int64_t n_values;             /* different ones, up to TS_VALUES_MAX */
  char word[2][64];             /* the first two of them */
  int64_t n_word[2];            /* how often each is there */
  uint64_t *seen;               /* their hashes, open addressing; 0: free */
  int64_t n_slots;
} ts_column;

/* Counting ends here: as good as all different. */
enum { TS_VALUES_MAX = 1 << 18 };

typedef struct ts_csv_survey {
  ts_column *columns;
  int32_t n_columns;
  char separator;
  char missing[16]; /* the marker that is there most; "" none */
  int64_t n_lines;  /* of data */
  int64_t n_bad;    /* with another number of fields */
} ts_csv_survey;

/* PATH, plain or packed, with a header. */
ts_err ts_csv_survey_of(ts_csv_survey *, const char *path);
void ts_csv_survey_reset(ts_csv_survey *);
