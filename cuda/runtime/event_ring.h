/* event_ring.h - which positions of a lane have been reached.
 *
 * Positions are numbered from 1 as they are recorded, and reached in that
 * order, as a stream is.  The CUDA event that stands for one is needed only
 * until it has been reached; then it stands for a later position.  So a
 * position may be held for however long: up to DONE it is complete, above DONE
 * it still has the CUDA event that was recorded for it, and no other.
 *
 * Plain C, without CUDA: the calls are given, and tests have calls of their
 * own.  Not thread-safe: a lane locks.  All of it is Local. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/* Operations on the events that stand for positions.  After an error of query
 * nothing that was recorded is waited for any more. */
typedef struct ts_event_calls {
  ts_err (*create)(void **event, void *arg);
  void (*destroy)(void *event, void *arg);
  ts_err (*record)(void *event, void *arg);
  ts_err (*query)(void *event, bool *reached, void *arg);
} ts_event_calls;

typedef struct ts_event_ring {
  const ts_event_calls *calls;
  void *arg;
  /* Events of positions done + 1 to recorded, at seq & (capacity - 1); NULL:
   * the next position's stands for it.  spare: free events. */
  void **events, **spare;
  uint64_t capacity; /* of both; a power of two, or 0 */
  uint64_t n_spare, recorded, done;
  bool held; /* positions after ASKED are not asked for */
  uint64_t asked;
} ts_event_ring;

void ts_event_ring_start(ts_event_ring *, const ts_event_calls *, void *arg);
void ts_event_ring_reset(ts_event_ring *);

/* Records the next position: *SEQ.  On an error *SEQ is the last one before,
 * and nothing has changed. */
ts_err ts_event_ring_record(ts_event_ring *, uint64_t *seq);

/* Moves DONE on as far as it goes.  On an error everything counts as done:
 * who waits must get on and find the error. */
ts_err ts_event_ring_poll(ts_event_ring *);

/* Positions recorded from now on belong to work that has not been started: they
 * are only numbered, and not reached, until release records all in one. */
void ts_event_ring_hold(ts_event_ring *);
ts_err ts_event_ring_release(ts_event_ring *);
/* True where SEQ is such a position. */
bool ts_event_ring_holds(const ts_event_ring *, uint64_t seq);

/* The event that stands for SEQ; NULL where it has been reached. */
void *ts_event_ring_find(const ts_event_ring *, uint64_t seq);
