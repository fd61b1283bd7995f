/* index_impl.h - what an index is made of; for index.c, index_list.c, and who
 * keeps a copy (sparse/mirror.h).
 * All of it is Local. */
#pragma once

#include <assert.h>

#include "sparse/index.h"

enum { SLOTS = 12 };

typedef struct ts_index_bucket {
  uint8_t print[SLOTS]; /* 0: nothing is there */
  uint32_t past;        /* ids that went past, as it was full */
  uint32_t row[SLOTS];  /* without first_row */
} bucket;

static_assert(sizeof(bucket) == 64, "a bucket is a line");

/* Where KEY is looked for first, of N_BUCKETS, and its fingerprint.  Parts
 * share the top bits of their keys: neither half of this looks there. */
TS_HASH_INLINE int64_t ts_index_home(uint64_t key, int64_t n_buckets) {
  return (int64_t)((uint32_t)key * (uint64_t)n_buckets >> 32);
}
TS_HASH_INLINE uint8_t ts_index_print(uint64_t key) {
  const uint8_t print = (uint8_t)(key >> 32);
  return print ? print : 1;
}

struct ts_index {
  int64_t first_row, n_rows;
  int64_t n;         /* ids that have a row */
  int64_t n_used;    /* rows that ever had one */
  int64_t room;      /* rows for which there are buckets and ids */
  int64_t n_buckets; /* below 2^32 */
  uint32_t free;     /* that was freed last, or TS_INDEX_NONE */
  bucket *buckets;   /* (n_buckets) */
  int64_t *id;       /* (room); of a freed row the one freed before it */
  /* Since ts_index_watch, for a copy elsewhere: buckets that insertions have
   * changed; n_changed -1: any may have. */
  bool watched;
  uint32_t *changed; /* (n_changed) of (changed_room) */
  int64_t n_changed, changed_room;
};

/* ROW, without first_row, as the caller has it. */
static inline uint32_t in_shard(const ts_index *x, uint32_t row) {
  return row == TS_INDEX_NONE ? row : (uint32_t)x->first_row + row;
}
