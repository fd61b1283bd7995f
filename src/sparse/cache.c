/* cache.c - the host looks into the directory of lines. */
#include "sparse/cache.h"

#include <math.h>

#include "base/clones.h"

/* Compilers without wider registers cut these in halves. */
typedef uint32_t ts_tags __attribute__((vector_size(32)));
enum { LANES = 8, EXPECT = 8 };

#define INLINE static inline __attribute__((always_inline))

int64_t ts_cache_lines_for(int64_t n_rows, double load_factor) {
  const double lines = ceil((double)n_rows * load_factor / TS_CACHE_WAYS);
  return TS_CACHE_WAYS * (lines < 1 ? 1 : (int64_t)lines);
}

static int64_t first_of_set(const ts_cache *c, uint32_t row) {
  return ts_cache_set(ts_cache_hash(row), c->n_sets) * TS_CACHE_WAYS;
}

static void expect(const ts_cache *c, uint32_t row) {
  const uint32_t *tag = c->tag + first_of_set(c, row);
  __builtin_prefetch(tag, 0, 3);
  __builtin_prefetch(tag + 16, 0, 3);
}

INLINE int64_t find(const ts_cache *c, uint32_t row) {
  const int64_t first = first_of_set(c, row);
  const ts_tags *tag = (const ts_tags *)(const void *)(c->tag + first);
  ts_tags number = {1, 2, 3, 4, 5, 6, 7, 8}, found = {0};
  for (int k = 0; k < TS_CACHE_WAYS / LANES; k++) {
    found |= (ts_tags)(tag[k] == row) & number;
    number += LANES;
  }
  uint32_t way = 0; /* one lane at most has it */
  for (int k = 0; k < LANES; k++) way |= found[k];
  return way ? first + way - 1 : -1;
}

int64_t ts_cache_find(const ts_cache *c, uint32_t row) {
  return find(c, row);
}

TS_CLONES void ts_cache_find_many(const ts_cache *c, const uint32_t *rows,
                                  int64_t n, int64_t ahead, int32_t *line) {
  for (int64_t i = 0; i < n; i++) {
    if (i + EXPECT < n + ahead) expect(c, rows[i + EXPECT]);
    line[i] = (int32_t)find(c, rows[i]);
    if (line[i] >= 0) __builtin_prefetch(c->line + line[i], 1, 3);
  }
}

INLINE int64_t least(const ts_cache *c, int64_t first, bool lfu, uint32_t now) {
  uint64_t worth = TS_CACHE_LOCKED;
  int64_t best = -1;
  for (int64_t i = first; i < first + TS_CACHE_WAYS; i++) {
    const uint64_t w = ts_cache_worth(c->tag[i], c->line[i], lfu, now);
    best = w < worth ? i : best;
    worth = w < worth ? w : worth;
  }
  return best;
}

int64_t ts_cache_victim(const ts_cache *c, int64_t set, uint32_t now) {
  const int64_t first = set * TS_CACHE_WAYS;
  return c->lfu ? least(c, first, true, now) : least(c, first, false, now);
}

void ts_cache_expect_victim(const ts_cache *c, int64_t set) {
  for (int i = 0; i < TS_CACHE_WAYS; i += 4)
    __builtin_prefetch(c->line + set * TS_CACHE_WAYS + i, 1, 3);
}
