/* cuda_cache_sides.h - the cache of a device twice: by the host's entries and
 * by a target's, which must have the same bytes at each step. */
#ifndef TS_TESTS_CUDA_CACHE_SIDES_H
#define TS_TESTS_CUDA_CACHE_SIDES_H

#include "tests/kernels/cuda_cache.h"
#include "tests/support/sparse_util.h"

enum { ROWS = 900, TABLES = 4, STEPS = 6, IDS = 700, PARTS = 3, SETS = 16 };
enum { LINES = 32 * SETS, FIRST_LINE = 4096 };
/* Rows in pieces of 16, 4 and 2 bytes; the first in more than 128 of them. */
extern const int64_t part_bytes[PARTS];

typedef struct spec {
  int n_sets, passes, blocks;
  bool lfu;
  int64_t n_ids;
} spec;

extern const cache_target *cache_tested;
extern cache_target cache_plain; /* the host's */

typedef struct side {
  const cache_target *t;
  ts_cache c;
  void *rows[PARTS]; /* as the host sees them */
  uint32_t *slots[STEPS], *keys, *place;
  ts_cache_report report;
} side;

/* Around all cases. */
void sides_start(void);
void sides_stop(void);

void side_open(side *, const cache_target *, const spec *);
void side_close(side *);

/* What the two sides of S are at, for messages. */
extern const char *sides_step;
/* Of the first side A, of the second B: WHAT is the same. */
void sides_same(const side *s, const char *what, const void *a, const void *b,
                size_t bytes);
/* All that both have is the same. */
void sides_compare(const side *s);

#endif
