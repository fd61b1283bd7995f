/* tier_cached.h - inside the tiers with slow memory; private to
 * tier_cached.c and tier_fill.c.
 * Functions are Local unless they say Collective or Enqueues. */
#ifndef TS_SPARSE_TIER_CACHED_H
#define TS_SPARSE_TIER_CACHED_H

#include "runtime/store.h"
#include "sparse/cache.h"
#include "sparse/tier.h"

/* Rows that are moved at a time. */
enum { TS_MOVE_MAX = 1024 };

typedef struct ts_move {
  uint32_t row[TS_MOVE_MAX], slot[TS_MOVE_MAX];
  int64_t n;
} ts_move;

typedef struct ts_cached {
  ts_tier base;
  ts_tier_spec spec;
  ts_cache cache;
  ts_store weights, state[2]; /* states of dim floats */
  ts_buffer row_state[2];     /* of one float per row */
  int64_t first_line;         /* slot of line 0 */
  int64_t line_bytes;         /* of weights and states that move */
  int key_bits;
  uint8_t *through; /* a bit per row: has no line in the batch at hand */
  ts_tier_count *count;
  double hold_s;
  int32_t n_held; /* batches */
  /* scratch of hold */
  ts_buffer keys[2], order[2];
  ts_move in, out;
  int64_t n_through; /* in the batch at hand */
} ts_cached;

ts_err ts_tier_hold(ts_tier *, uint32_t *slots, int64_t n, ts_lane *);
/* Rows of M between slow memory and lines, weights and states. */
ts_err ts_tier_read(ts_cached *, ts_move *);
ts_err ts_tier_write(ts_cached *, ts_move *);

#endif
