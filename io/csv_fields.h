/* csv_fields.h - splitting a line of CSV, and writing one.  All of it is Local.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

typedef struct ts_field {
  const char *text; /* without quotes and blanks around it */
  size_t n_bytes;
} ts_field;

/* Leaves out blanks around a field. */
void ts_csv_trim(ts_field *);
/* Fields of the line [P, END) by SEPARATOR into FIELDS (at most MAX); their
 * number, or -1 where a quote has no end.  "" inside quotes stays as it is.
 */
int ts_csv_split(ts_field *fields, int max, const char *p, const char *end,
                 char separator);
/* Whether a quote is open behind [P, END), whole lines of a record; OPEN: one
 * was before them. */
bool ts_csv_is_open(const char *p, const char *end, char separator, bool open);
/* The line end of the record that begins at P, not one inside of quotes; NULL:
 * it goes on to END. */
const char *ts_csv_record_end(const char *p, const char *end, char separator);
/* Appends TEXT, in quotes where it could not be told from what is around it.
 */
ts_err ts_csv_add(ts_str *, const char *text, size_t n_bytes);
