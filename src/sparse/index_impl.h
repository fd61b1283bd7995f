/* index_impl.h - what an index is made of; for index.c and index_list.c.
 * All of it is Local. */
#pragma once

#include "sparse/index.h"

enum { SLOTS = 12 };

typedef struct bucket {
  uint8_t print[SLOTS]; /* 0: nothing is there */
  uint32_t past;        /* ids that went past, as it was full */
  uint32_t row[SLOTS];  /* without first_row */
} bucket;

_Static_assert(sizeof(bucket) == 64, "a bucket is a line");

struct ts_index {
  int64_t first_row, n_rows;
  int64_t n;         /* ids that have a row */
  int64_t n_used;    /* rows that ever had one */
  int64_t room;      /* rows for which there are buckets and ids */
  int64_t n_buckets; /* below 2^32 */
  uint32_t free;     /* that was freed last, or TS_INDEX_NONE */
  bucket *buckets;   /* (n_buckets) */
  int64_t *id;       /* (room); of a freed row the one freed before it */
};

/* ROW, without first_row, as the caller has it. */
static inline uint32_t in_shard(const ts_index *x, uint32_t row) {
  return row == TS_INDEX_NONE ? row : (uint32_t)x->first_row + row;
}
