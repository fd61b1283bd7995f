/* csv_survey.h - what the columns of a CSV file are, from one pass over it.
 * All of it is Local. */
#pragma once

#include "base/str.h"

typedef struct ts_column {
  char *name;
  bool twice;                   /* another column has the name, too */
  int64_t n_missing, n_numbers; /* fields that are empty or a marker; numbers */
  int64_t n_whole;              /* of the numbers */
  int64_t n_listed;             /* fields with a | in them */
  int64_t n_commas;             /* numbers but for a comma in them: 0,25 */
  double min, max;              /* of the numbers */
  int64_t n_values;             /* different ones, up to values_max */
  char word[2][64];             /* the first two of them */
  int64_t n_word[2];            /* how often each is there */
  uint64_t *seen;               /* their hashes, open addressing; 0: free */
  int64_t n_slots;
} ts_column;

typedef struct ts_csv_survey {
  ts_column *columns;
  int32_t n_columns;
  char separator;
  int64_t values_max; /* counting ends here: as good as all different */
  char missing[16];   /* the marker that is there most; "" none */
  int64_t n_lines;    /* of data that can be read */
  int64_t n_bad;      /* others, with another number of fields */
} ts_csv_survey;

/* PATH, plain or packed, with a header. */
ts_err ts_csv_survey_of(ts_csv_survey *, const char *path);
void ts_csv_survey_reset(ts_csv_survey *);
