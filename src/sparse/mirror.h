/* mirror.h - the kernels of a copy of indexes (sparse/index.h) in a device's
 * memory: which rows ids have, and how the copy follows what the host changes.
 *
 * Arrays are device memory.  On the host all of it is plain memory: its kernels
 * are the reference.  All of it is Local. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "sparse/index.h"

struct ts_index_bucket; /* sparse/index_impl.h */

/* The index of one table of a group. */
typedef struct ts_mirror_table {
  const struct ts_index_bucket *buckets; /* (n_buckets) */
  int64_t n_buckets;
  int64_t base; /* first row of the group, of the shard's row 0 */
} ts_mirror_table;

/* Ids of one table that lie together: the places [first, first + n) of all. */
typedef struct ts_mirror_part {
  const void *ids; /* (n) int64, at multiples of 4 bytes */
  int64_t first, n;
  int64_t table;
} ts_mirror_part;

/* Kernel index_find: rows[i] = the row in its shard of the i-th of all ids, 0
 * of those that have none.  AHEAD: nor have those whose row was given by a
 * batch from it on (0: none was).
 * With MISSED those without a row are listed as well, and rows[i] is not given:
 * n_missed[0] of them, their places ascending, and which ids they are. */
typedef struct ts_index_find_args {
  const ts_mirror_table *tables;
  const ts_mirror_part *parts; /* (n_parts) by ascending places, n > 0 */
  const int64_t *ids;          /* (rows of the group) whose they are */
  const uint32_t *born;        /* (rows of the group) */
  uint32_t ahead;
  int32_t n_parts;
  int64_t n; /* of all, < 2^31 */
  int32_t *rows;
  uint32_t *n_missed, *missed; /* (1), (n); or NULL */
  int64_t *missed_ids;         /* (n) */
} ts_index_find_args;

/* Kernel put_rows: to[rows[i] - low] = from[i], rows of ROW_BYTES bytes, which
 * are a multiple of 2; FROM NULL: zeros.  Rows from LOW on and, where HIGH is
 * not 0, below it; the others are left out.  Of equal ROWS the content is the
 * same. */
typedef struct ts_put_rows_args {
  void *to;             /* (rows, row_bytes) of the rows from low on */
  const uint32_t *rows; /* (n) */
  const void *from;     /* (n, row_bytes) or NULL */
  int64_t n, row_bytes;
  uint32_t low, high;
} ts_put_rows_args;

TS_HASH_INLINE bool ts_puts_row(const ts_put_rows_args *a, uint32_t row) {
  return row >= a->low && (!a->high || row < a->high);
}

/* Kernel meet_rows: seen[keys[i]]++ and last[keys[i]] = pass, once for each of
 * the keys that differ. */
typedef struct ts_meet_rows_args {
  uint32_t *seen, *last; /* (rows of the group) */
  const uint32_t *keys;  /* (n) equal ones beside each other */
  int64_t n;
  uint32_t pass;
} ts_meet_rows_args;
