/* csv_fields.h - splitting a line of CSV.  All of it is Local. */
#pragma once

#include <stddef.h>

typedef struct ts_field {
  const char *text; /* without quotes and blanks around it */
  size_t n_bytes;
} ts_field;

/* Fields of the line [P, END) by SEPARATOR into FIELDS (at most MAX); their
 * number, or -1 where a quote has no end.  "" inside quotes stays as it is.
 */
int ts_csv_split(ts_field *fields, int max, const char *p, const char *end,
                 char separator);
