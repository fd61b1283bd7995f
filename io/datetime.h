/* datetime.h - dates and times as columns have them.  All of it is Local. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* In the order of data.columns.part's choices. */
typedef enum {
  TS_TIME_NONE,
  TS_TIME_YEAR,
  TS_TIME_MONTH,   /* from 1 */
  TS_TIME_DAY,     /* from 1 */
  TS_TIME_WEEKDAY, /* from 0, Monday */
  TS_TIME_HOUR,
  TS_TIME_MINUTE
} ts_time_part;

/* The part that WORD names; NONE: it names none. */
ts_time_part ts_time_part_of(const char *word);

/* Rows that a part's values are the numbers of; 0: a year may be any. */
int64_t ts_time_rows(ts_time_part);

/* A part of the date and time in TEXT; -1: it is none, or does not say that
 * part.  2014-10-21 (also with /), with T or a blank before 13:05, 13:05:59 or
 * 13:05:59.5 and a time zone, which changes nothing: parts are as written.
 * Numbers: 14102113 is YYMMDDHH; of 9 or 10 digits seconds since 1970, of 12
 * or 13 milliseconds, both of UTC. */
int64_t ts_time_read(const char *text, size_t n_bytes, ts_time_part);

/* Seconds since 1970, UTC, of the date and time in TEXT, in the first of those
 * forms; its time zone counts, none is UTC.  False: it is none. */
bool ts_time_seconds(const char *text, size_t n_bytes, double *seconds);
