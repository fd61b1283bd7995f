/* cache_policy.h - the policy of the cache, said once for the host's kernels
 * (kernels_cache.c) and a device's (cuda/sparse): which set a row belongs to,
 * what a use of a line changes, and which line is given away.
 *
 * A set has 32 lines.  The victim is the line with the least worth, and of
 * equals the first: a free line, else the one used longest ago (LRU), or the
 * one used least, where uses count half as much every TS_CACHE_AGE batches,
 * and of those the oldest (LFU).  Locked lines stay.
 *
 * Compiles as C11, by nvcc and by g++.  All of it is Local. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#ifdef __CUDACC__
#define TS_CACHE_INLINE static inline __host__ __device__
#else
#define TS_CACHE_INLINE static inline
#endif

enum { TS_CACHE_WAYS = 32, TS_CACHE_AGE = 32 };
#define TS_CACHE_NONE UINT32_C(0xffffffff)  /* tag of a free line */
#define TS_CACHE_DIRTY UINT32_C(0x80000000) /* in state; the rest: locks */
#define TS_CACHE_LOCKED                                                        \
  UINT64_C(0xffffffffffffffff) /* worth of such a line                         \
                                */

/* One load of a device. */
typedef struct __attribute__((aligned(16))) ts_cache_line {
  uint32_t stamp; /* last batch that used it */
  uint32_t round; /* last round that locked or unlocked it */
  uint32_t count; /* uses, as of stamp */
  uint32_t state; /* batches under way that use it, and TS_CACHE_DIRTY */
} ts_cache_line;
/* Bytes of the directory for a line: the row that has it, and the above. */
enum { TS_CACHE_LINE_BYTES = 4 + sizeof(ts_cache_line) };

/* One to one: hashes order rows.  Neighbours among rows, and rows at even
 * steps, are spread alike. */
TS_CACHE_INLINE uint32_t ts_cache_hash(uint32_t row) {
  uint32_t h = row;
  h = (h ^ h >> 16) * 0x85ebca6bu;
  h = (h ^ h >> 13) * 0xc2b2ae35u;
  return h ^ h >> 16;
}

/* The row that has this hash. */
TS_CACHE_INLINE uint32_t ts_cache_row(uint32_t hash) {
  uint32_t h = hash ^ hash >> 16;
  h *= 0x7ed1b41du; /* times the other factor: 1 */
  h = (h ^ h >> 13 ^ h >> 26) * 0xa5cb9243u;
  return h ^ h >> 16;
}

/* Ascends with the hash, so rows sorted by hash come set by set. */
TS_CACHE_INLINE int64_t ts_cache_set(uint32_t hash, int64_t n_sets) {
  return (int64_t)((uint64_t)hash * (uint64_t)n_sets >> 32);
}

TS_CACHE_INLINE bool ts_cache_is_locked(ts_cache_line l) {
  return (l.state & ~TS_CACHE_DIRTY) != 0;
}

/* Uses of a line that still count. */
TS_CACHE_INLINE uint32_t ts_cache_aged(ts_cache_line l, uint32_t now) {
  const uint32_t halvings = (now - l.stamp) / TS_CACHE_AGE;
  return halvings < 32 ? l.count >> halvings : 0;
}

/* N more ids of batch NOW use the line; true where they are its first, which
 * lock it. */
TS_CACHE_INLINE bool ts_cache_use(ts_cache_line *l, bool lfu, uint32_t now,
                                  uint32_t n) {
  const bool first = l->stamp != now;
  if (lfu && first) l->count = ts_cache_aged(*l, now);
  l->count =
      l->count > UINT32_C(0xffffffff) - n ? UINT32_C(0xffffffff) : l->count + n;
  l->stamp = now;
  l->state += first;
  return first;
}

/* A line as it is given to a row of which batch NOW has N ids: locked, and
 * clean. */
TS_CACHE_INLINE ts_cache_line ts_cache_given(uint32_t now, uint32_t n) {
  const ts_cache_line l = {now, 0, n, 1};
  return l;
}

/* How much the line of row TAG is worth keeping: the least is given away. */
TS_CACHE_INLINE uint64_t ts_cache_worth(uint32_t tag, ts_cache_line l, bool lfu,
                                        uint32_t now) {
  const uint32_t recent = UINT32_C(0xffffffff) - (now - l.stamp);
  const uint64_t uses = lfu ? ts_cache_aged(l, now) : 0;
  if (tag == TS_CACHE_NONE) return 0;
  if (ts_cache_is_locked(l)) return TS_CACHE_LOCKED;
  return 1 + (uses << 32 | recent);
}
