/* cache_device.h - the cache of a device: a directory of lines that kernels
 * alone touch, and the kernels' arguments.
 *
 * It means what sparse/cache.h's means, with the same sets of 32 ways, which
 * is a warp, and the same policies.  What differs: rows of a batch are taken
 * in the order of their hashes, not of their numbers, which puts the rows of
 * a set side by side in one sort.  So where a set overflows, other rows of
 * the batch may be those without a line.
 *
 * All is device memory unless said otherwise; slow rows are host memory that
 * the device reaches (ts_device_reach). */
#ifndef TS_SPARSE_CACHE_DEVICE_H
#define TS_SPARSE_CACHE_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

enum {
  TS_CACHE_PARTS = 3,             /* weights, two states of dim floats */
  TS_CACHE_PASSES_MAX = 16,       /* of a hold */
  TS_CACHE_LAUNCHES_MAX = 1024,   /* a hold has fewer */
  TS_CACHE_DEVICE_LINE_BYTES = 20 /* of the directory, for a line */
};
#define TS_CACHE_DIRTY UINT32_C(0x80000000) /* in state; the rest: locks */

/* Counts of a table, as in ts_tier_count. */
enum {
  TS_CACHE_IDS,
  TS_CACHE_HITS,
  TS_CACHE_MISSES,
  TS_CACHE_CONFLICTS,
  TS_CACHE_EVICTED,
  TS_CACHE_WRITTEN,
  TS_CACHE_COUNTS
};

/* Rows of one array: all of them in slow memory, lines in fast memory. */
typedef struct ts_cache_part {
  char *rows;    /* (n_rows, bytes) as kernels see them */
  char *lines;   /* (n_lines, bytes) */
  int64_t bytes; /* of a row; even */
} ts_cache_part;

typedef struct ts_cache_device {
  uint32_t *tag;     /* (n_lines) row of each, UINT32_MAX: free */
  uint32_t *stamp;   /* last batch that used it */
  uint32_t *round;   /* last round that locked or unlocked it */
  uint32_t *count;   /* uses, as of stamp */
  uint32_t *state;   /* locks, and TS_CACHE_DIRTY */
  uint32_t *through; /* a bit per row: has no line in the batch at hand; NULL
                        where a hold has one pass */
  int64_t n_sets;
  uint32_t first_line; /* slot of line 0; more than any row */
  bool lfu;
  const int64_t *row_base; /* (n_tables + 1) */
  int32_t n_tables;
  uint64_t *counts; /* (n_tables, TS_CACHE_COUNTS) since creation */
  uint64_t *locks;  /* (2) sum of all lines'; rows in through */
  ts_cache_part part[TS_CACHE_PARTS];
  int n_parts;
} ts_cache_device;

/* What a hold took; host memory, written before the call returns. */
typedef struct ts_cache_report {
  int64_t launches;      /* of the last hold, at most */
  int64_t scratch_bytes; /* most of any hold */
} ts_cache_report;

/* Kernels cache_*.
 *   hold      slots (n), rows of the group: they become slots.  Ids are taken
 *             in slices of PASS of them.  NOW: number of the batch
 *   release   slots (n): each line of theirs loses a lock.  ROUND: a number
 *             that no other release or refresh has
 *   refresh   slots (n): of rows that have a line now, which is locked once
 *             in ROUND
 *   locate    slots (n): at the first of equal KEYS (n, ascending) where the
 *             row lies; its line will be written
 *   flush     dirty lines are written to slow memory
 *   reload    lines in use are read anew, the others given up */
typedef struct ts_cache_args {
  const ts_cache_device *cache; /* host memory */
  uint32_t now, round;
  uint32_t *slots;
  const uint32_t *keys;
  int64_t n, pass;
  ts_cache_report *report; /* of hold; or NULL */
} ts_cache_args;

/* Kernel cache_rows: out[i] = row_base[f] + rows[i], the group's rows of a
 * batch; names as in ts_lookup_args. */
typedef struct ts_cache_rows_args {
  uint32_t *out;            /* (n) */
  const int64_t *offsets;   /* (bags + 1) */
  const int32_t *rows;      /* (n) */
  const int64_t *bag_start; /* (n_features + 1) host memory */
  const int64_t *row_base;  /* (n_features) host memory */
  int32_t n_features;
  int64_t n;
} ts_cache_rows_args;

#endif
