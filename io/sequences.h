/* sequences.h - a log of events as one sequence of items a user.
 *
 * Text, .gz too, in lines: "user item", or "user item time" in any order, or
 * with LISTS "user item item ..." .  Fields are parted by tabs where the first
 * line has one, else by "::", else by commas, else by blanks; of lists by any
 * of tabs, commas and blanks.  Blank lines are none.
 *
 * The first line is a header where COLUMNS names columns, where user and item
 * are words without digits that begin so, where one of them is a word and its
 * time no number, and where the second line has an integer in its place.
 *
 * Users, and items, are integers from 0 on where all that the file has are
 * written so (without leading zeros, below 2^63), else words, which are
 * numbered from 1 on in the order in which the file has them first.  TEST's
 * users and items are among these, and its events come behind a user's others,
 * whatever their times are.  The same goes for what a side column has.
 * All of it is Local. */
#pragma once

#include "io/numbering.h"

enum { TS_SIDES = 16, TS_SIDE_NAME = 104 };
/* Further columns of the log, each of which becomes a feature. */
typedef struct ts_sides {
  int32_t n;
  const char *column[TS_SIDES]; /* names of the header, or numbers from 1 */
  char feature[TS_SIDES][TS_SIDE_NAME];
} ts_sides;

/* N columns, whose names must stay.  USAGE: a feature can't be called so. */
ts_err ts_sides_take(ts_sides *, char *const *columns, int32_t n);

typedef struct ts_sequences_of {
  const char *path;
  bool lists;
  /* of user, item and time: names of the header, or numbers from 1; n 0: as
   * they come, 2: there is no time */
  const char *columns[3];
  int32_t n_columns;
  int64_t min_count;    /* users and items with fewer events are left out, until
                           there is none; 1: all are kept */
  const char *split_at; /* a time; NULL: none */
  const char *test;     /* a second log of the same form; NULL: none */
  const ts_sides *sides;
  bool times; /* they are kept, and have to be whole numbers from 0 on */
} ts_sequences_of;

/* Users, items, or what a side column has, by their ids. */
typedef struct ts_sequence_ids {
  int32_t n;
  int64_t *id;        /* (n) ascending: what data sets have */
  int32_t *word;      /* (n) its number in NAMES; NULL: the file has integers */
  ts_numbering names; /* of all that the file has */
  int64_t line; /* the first one that has a word that is no integer; 0: none */
  const char *path; /* of which file */
} ts_sequence_ids;

typedef struct ts_sequence_side {
  ts_sequence_ids ids;
  int32_t *of; /* (n_events) place in IDS, of the events as in ITEM */
} ts_sequence_side;

typedef struct ts_sequences {
  ts_sequence_ids users, items;
  const ts_sides *sides;
  ts_sequence_side side[TS_SIDES]; /* (sides->n) */
  const char *header[2]; /* logs whose first line is one; NULL: none is left */
  int64_t n_events;
  int64_t *offsets; /* (users.n + 1) of ITEM */
  int32_t *item;    /* (n_events) place in ITEMS; a user's are by time, then by
                       line, the oldest first */
  int64_t *before;  /* (users.n) of a user's events are before SPLIT_AT, or not
                       of TEST; NULL: neither is given */
  int64_t *time;    /* (n_events) as in ITEM; NULL: they are not kept */
} ts_sequences;

/* Errors of DATA name the line.  To be reset in any case.  Memory: 16 bytes an
 * event while lines are read (8 without times), 12 more while they are grouped.
 * Each side column takes 4 and 4 more.  What stays is 4 for items, 4 for each
 * side column, and 8 for times, which cost nothing before as they are sorted
 * by.
 */
ts_err ts_sequences_read(ts_sequences *, const ts_sequences_of *);
void ts_sequences_reset(ts_sequences *);
