/* prefetch_stub.h - a tier whose rows are resident and said to be cached, which
 * writes down when and on which thread it was asked. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

enum { EVENTS = 20000, TIERS = 32 };

typedef enum {
  RESOLVE,
  RESOLVED,
  LOCK,
  UNLOCK,
  REFRESH,
  LOOKUP,
  UPDATE,
  UPDATED,
  LOOK, /* from outside of a step */
  WHATS
} what;

typedef struct event {
  what what;
  const void *weights; /* of the tier */
  uint64_t rows;       /* hash, of the tier's own */
  pthread_t thread;
} event;

/* The events since stub_on, in order. */
extern event stub_events[EVENTS];
extern int stub_n_events;
/* How long a batch's rows take to come, and to be given back. */
extern int stub_resolve_us, stub_unlock_us;
/* Who looks now is written down. */
extern bool stub_looking;

/* Cached tables have this tier from here on, until stub_off. */
void stub_on(void);
void stub_off(void);
