/* tier.h - where a group's rows live.
 *
 * Lookup and backward always go through slots: resolve() turns rows of the
 * group into slots of fast memory.  "resident": all rows are in fast memory
 * and a row is its own slot; caches stand over slower tiers and come with
 * their own file. */
#ifndef TS_SPARSE_TIER_H
#define TS_SPARSE_TIER_H

#include "base/dtype.h"
#include "runtime/device.h"

typedef struct ts_tier ts_tier;

typedef struct ts_tier_spec {
  int64_t n_rows;
  int32_t dim;
  ts_dtype dtype;
  int n_states;
  int32_t state_cols[2]; /* floats per row of each state: dim or 1 */
} ts_tier_spec;

typedef struct ts_tier_ops {
  const char *kind; /* "resident" */
  bool cached;      /* rows have to be resolved before they are used */
  ts_err (*create)(ts_tier **, ts_device *, const ts_tier_spec *);
  void (*destroy)(ts_tier *);
  /* Slots of N group rows, and an event after which the slots are filled.
   * SLOTS may be the array ROWS itself. */
  ts_err (*resolve)(ts_tier *, const uint32_t **slots, ts_event *ready,
                    const uint32_t *rows, int64_t n, ts_lane *);
  /* Slots in use may not be evicted between lock and unlock. */
  ts_err (*lock)(ts_tier *, const uint32_t *slots, int64_t n, ts_lane *);
  ts_err (*unlock)(ts_tier *, const uint32_t *slots, int64_t n, ts_lane *);
  /* Rows [first, first + n) whole, weights then state K (k = -1: weights),
   * from and to host memory; the tier must be idle. */
  ts_err (*get_rows)(ts_tier *, void *dst, int k, int64_t first, int64_t n);
  ts_err (*put_rows)(ts_tier *, const void *src, int k, int64_t first,
                     int64_t n);
  void *(*weights)(ts_tier *);       /* (slots, dim), fast memory */
  float *(*state)(ts_tier *, int k); /* (slots, state_cols[k]) */
} ts_tier_ops;

struct ts_tier {
  const ts_tier_ops *ops;
};

const ts_tier_ops *ts_tier_find(const char *kind);
/* The tier of groups whose deck names none: resident, unless OPS is not NULL
 * (tests). */
const ts_tier_ops *ts_tier_default(void);
void ts_tier_set_default(const ts_tier_ops *ops);

#endif
