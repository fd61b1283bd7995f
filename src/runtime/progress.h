/* progress.h - how far long work is: a line of rank 0 every ten seconds, none
 * of what takes less.  The time left is that of all at the rate so far.
 * All of it is Local; one thread. */
#pragma once

#include <stdbool.h>

typedef struct ts_work {
  const char *what, *of;   /* "counting lines of", a path */
  const char *unit;        /* "samples"; NULL: bytes */
  double all, begun, next; /* next: of ts_now, a line is due */
} ts_work;

/* WHAT, OF and UNIT live as long as the work. */
ts_work ts_work_begin(const char *what, const char *of, double all,
                      const char *unit);
/* DONE of ALL are. */
void ts_work_at(ts_work *, double done);
/* Whether ts_work_at would write a line, where DONE is not known at once. */
bool ts_work_is_due(const ts_work *);
