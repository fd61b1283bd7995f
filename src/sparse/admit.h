/* admit.h - which ids of a dynamic table get a row: those that were met in
 * enough steps (admit.min_count of the deck), for one shard.
 *
 * In how many steps an id without a row was met is counted by a count-min
 * sketch (Cormode and Muthukrishnan, J. Algorithms 55, 2005), which may say too
 * much and never too little.  Each of the keys' TS_INDEX_PARTS parts has its
 * own, so that it says the same however the parts are dealt to shards.  A key
 * says in which line of 64 counters it is, and which of each quarter of the
 * line are its four: a count touches one line of the cache.
 *
 * An id counts once in a step, and what decides is how often it was met in the
 * steps before: nothing depends on the order of ids within a step.  Batches
 * come before the steps ahead of them are done, so what a batch changed can be
 * taken back, as long as fewer than TS_ADMIT_AHEAD steps have begun since.
 * All of it is Local, the host's memory, one caller at a time. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

enum { TS_ADMIT_AHEAD = 16, TS_ADMIT_LINE = 64 };

typedef struct ts_admit ts_admit;

/* The sketch has LINES lines for each of the parts [first_part, first_part +
 * n_parts).  An id gets a row in the LEAST-th step that it is met in, at most
 * 255.  All counts begin at 0. */
typedef struct ts_admit_spec {
  int32_t first_part, n_parts;
  int64_t lines;
  int32_t least;
} ts_admit_spec;

ts_err ts_admit_create(ts_admit **, const ts_admit_spec *); /* MEMORY */
void ts_admit_destroy(ts_admit *);

/* Batch number BATCH comes, from 1 upwards; AGAIN: it is of the last one's
 * step.  One that has come already may come once more; then all that came after
 * it have to, in their order. */
void ts_admit_begin(ts_admit *, uint32_t batch, bool again);
/* MAY (n) = which of IDS, that have no row and are in the batch that has begun,
 * get one.  MEMORY. */
ts_err ts_admit_ask(ts_admit *, bool *may, const int64_t *ids, int64_t n);

/* Counts as they are before batch FIRST, or 0: after all; until the next batch
 * begins. */
void ts_admit_back(ts_admit *, uint32_t first);
/* The same, and batches from FIRST on have not come (0: none is taken back any
 * more). */
void ts_admit_forget(ts_admit *, uint32_t first);
/* No batch has come yet; counts are what somebody has written there. */
void ts_admit_restart(ts_admit *);
/* After batches that are ahead were forgotten: all counts are half of what they
 * were; are 0. */
void ts_admit_halve(ts_admit *);
void ts_admit_clear(ts_admit *);

/* (n_parts, lines, TS_ADMIT_LINE), for checkpoints, between back and the next
 * batch. */
uint8_t *ts_admit_counts(ts_admit *);
const ts_admit_spec *ts_admit_spec_of(const ts_admit *);
