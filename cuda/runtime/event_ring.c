/* event_ring.c - a ring of positions that grows, and a list of free events:
 * never more events than positions that were open at once. */
#include "cuda/runtime/event_ring.h"

#include <string.h>

#include "base/mem.h"

enum { FIRST = 64 };

void ts_event_ring_start(ts_event_ring *r, const ts_event_calls *calls,
                         void *arg) {
  *r = (ts_event_ring){.calls = calls, .arg = arg};
}

static void **slot(const ts_event_ring *r, uint64_t seq) {
  return &r->events[seq & (r->capacity - 1)];
}

/* The oldest open position has been reached. */
static void pass(ts_event_ring *r) {
  void *event = *slot(r, ++r->done);
  if (event) r->spare[r->n_spare++] = event;
}

/* The first position from SEQ on that has something of its own. */
static uint64_t stands(const ts_event_ring *r, uint64_t seq) {
  while (!*slot(r, seq)) seq++;
  return seq;
}

void ts_event_ring_reset(ts_event_ring *r) {
  while (r->done < r->recorded) pass(r);
  while (r->n_spare) r->calls->destroy(r->spare[--r->n_spare], r->arg);
  ts_mem_free(r->events);
  ts_mem_free(r->spare);
  *r = (ts_event_ring){0};
}

static ts_err grow(ts_event_ring *r) {
  ts_err err = TS_OK;
  void **events = NULL, **spare = NULL;
  const uint64_t capacity = r->capacity ? 2 * r->capacity : FIRST;
  TS_TRY(ts_mem_array(&events, (int64_t)capacity, sizeof *events, TS_TAG_MISC));
  TS_TRY(ts_mem_array(&spare, (int64_t)capacity, sizeof *spare, TS_TAG_MISC));
  for (uint64_t s = r->done + 1; s <= r->recorded; s++)
    events[s & (capacity - 1)] = *slot(r, s);
  for (uint64_t i = 0; i < r->n_spare; i++) spare[i] = r->spare[i];
  ts_mem_free(r->events);
  ts_mem_free(r->spare);
  r->events = events;
  r->spare = spare;
  r->capacity = capacity;
  events = spare = NULL;
done:
  ts_mem_free(events);
  ts_mem_free(spare);
  return err;
}

ts_err ts_event_ring_record(ts_event_ring *r, uint64_t *seq) {
  *seq = r->recorded;
  TS_DO(ts_event_ring_poll(r));
  if (r->recorded - r->done == r->capacity) TS_DO(grow(r));
  if (!r->n_spare) {
    TS_DO(r->calls->create(&r->spare[0], r->arg));
    r->n_spare = 1;
  }
  void *event = r->spare[r->n_spare - 1];
  if (!r->held) TS_DO(r->calls->record(event, r->arg));
  r->n_spare--;
  *seq = ++r->recorded;
  *slot(r, *seq) = event;
  return TS_OK;
}

/* After an error: whoever waits must get on and find it. */
static void pass_all(ts_event_ring *r) {
  while (r->done < r->recorded) pass(r);
  r->held = false;
}

ts_err ts_event_ring_poll(ts_event_ring *r) {
  ts_err err = TS_OK;
  bool reached = true;
  while (r->done < (r->held ? r->asked : r->recorded)) {
    const uint64_t next = stands(r, r->done + 1);
    TS_TRY(r->calls->query(*slot(r, next), &reached, r->arg));
    if (!reached) break;
    while (r->done < next) pass(r);
  }
done:
  if (err != TS_OK) pass_all(r);
  return err;
}

void ts_event_ring_hold(ts_event_ring *r) {
  r->held = true;
  r->asked = r->recorded;
}

/* They are reached together: the last one stands for all. */
ts_err ts_event_ring_release(ts_event_ring *r) {
  ts_err err = TS_OK;
  if (!r->held) return TS_OK;
  r->held = false;
  if (r->recorded == r->asked) return TS_OK;
  TS_TRY(r->calls->record(*slot(r, r->recorded), r->arg));
  for (uint64_t s = r->asked + 1; s < r->recorded; s++) {
    r->spare[r->n_spare++] = *slot(r, s);
    *slot(r, s) = NULL;
  }
done:
  if (err != TS_OK) pass_all(r);
  return err;
}

bool ts_event_ring_holds(const ts_event_ring *r, uint64_t seq) {
  return r->held && seq > r->asked && seq <= r->recorded;
}

void *ts_event_ring_find(const ts_event_ring *r, uint64_t seq) {
  if (seq <= r->done || seq > r->recorded) return NULL;
  return *slot(r, stands(r, seq));
}
