/* sequences_impl.h - events as they are read; private to sequences*.c.
 * All of it is Local. */
#pragma once

#include "io/sequences.h"

/* In the order of the lines, by the numbers of users' and items' names. */
typedef struct ts_events {
  int64_t n, capacity;
  int32_t *user, *item;    /* (n) */
  uint64_t *time;          /* (n) bits of an int64_t or a double; NULL: none */
  int32_t *side[TS_SIDES]; /* (n) of the side columns that there are */
  bool fractions; /* they are of doubles: some time is no whole number */
} ts_events;

/* sequences_read.c: the lines of the file, behind what there is.  S gets names
 * and first lines of words. */
ts_err ts_events_read(ts_events *, ts_sequences *s, const ts_sequences_of *);
/* sequences_events.c: room for one more, and for its time where it is TIMED. */
ts_err ts_events_room(ts_events *, int32_t n_sides, bool timed);
/* TEXT as a time beside those of X, which become doubles where it is no whole
 * number; false: it is no finite number. */
bool ts_events_time(ts_events *x, const char *text, size_t n_bytes,
                    uint64_t *time);
/* A number that is in the order of the times. */
static inline uint64_t ts_events_key(const ts_events *x, uint64_t time) {
  const uint64_t sign = UINT64_C(1) << 63;
  return x->fractions && (time & sign) ? ~time : time ^ sign;
}
/* A word is an integer from 0 on, as numbers are written. */
bool ts_events_id(const char *text, size_t n_bytes, int64_t *id);
void ts_events_reset(ts_events *);
