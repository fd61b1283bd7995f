/* cache.h - the cache of a group's rows: a directory that says which row is in
 * which line of fast memory, and the arguments of the kernels that keep it.
 *
 * It is set-associative (sparse/cache_policy.h): a row's set is a hash of its
 * number, and within the set the row may have any line.  A line that a batch
 * under way uses is locked and not given away.  A batch locks each line once,
 * however often it has the row.
 *
 * The host's kernels (kernels_cache.c) and a device's (cuda/sparse/cache.cu)
 * leave the same bytes, but for one thing: rows of a batch that need a line
 * come in the order of their hashes on a device, which puts the rows of a set
 * side by side in one sort, and by number on the host, which is the order in
 * which a disk reads them.  So where a set overflows, other rows may be those
 * without a line.
 *
 * All is memory of the device unless said otherwise; slow rows of a device
 * with memory of its own are host memory that it reaches (ts_device_reach).
 * All of it is Local. */
#pragma once

#include <stddef.h>

#include "base/err.h"
#include "sparse/cache_policy.h"

enum {
  TS_CACHE_PARTS = 4, /* weights, three states of dim floats */
  /* Most bytes of a hold for an id of a pass: the host takes 16, and half as
   * much again to grow into (ts_mem_reserve). */
  TS_CACHE_SCRATCH_BYTES = 24,
  TS_CACHE_PASSES_MAX = 16,    /* of a device's hold */
  TS_CACHE_LAUNCHES_MAX = 1024 /* a hold has fewer */
};

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
  char *rows;             /* (n_rows, bytes) as kernels see them */
  char *lines;            /* (n_lines, bytes) */
  int64_t bytes;          /* of a row; even */
  struct ts_store *store; /* of the host, which moves rows by it; or NULL */
} ts_cache_part;

typedef struct ts_cache {
  uint32_t *tag;       /* (n_lines) row of each, or TS_CACHE_NONE */
  ts_cache_line *line; /* (n_lines) */
  uint32_t *through;   /* a bit per row: has no line in the batch at hand; NULL
                          where a hold has one pass */
  int64_t n_sets;
  uint32_t first_line; /* slot of line 0; more than any row */
  bool lfu;
  bool by_number; /* rows get lines in the order of their numbers: host */
  const int64_t *row_base; /* (n_tables + 1) */
  int32_t n_tables;
  uint64_t *counts; /* (n_tables, TS_CACHE_COUNTS) since creation */
  uint64_t *locks;  /* (2) sum of all lines'; rows in through */
  ts_cache_part part[TS_CACHE_PARTS];
  int n_parts;
} ts_cache;

/* The cost of holds; host memory, written before the call returns. */
typedef struct ts_cache_report {
  int64_t launches;      /* of the last hold, at most */
  int64_t scratch_bytes; /* most of any hold */
  void *scratch;         /* the host's keep theirs: ts_mem_free */
  size_t room;
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
  const ts_cache *cache; /* host memory */
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

/* ---- the host's directory (cache.c) -------------------------------------- */

/* Bytes of marks for N_ROWS rows, where a hold has several passes. */
static inline int64_t ts_cache_through_bytes(int64_t n_rows, int32_t passes) {
  return passes > 1 ? (n_rows / 32 + 1) * 4 : 0;
}
/* Passes of a hold that was asked for PASSES: each has launches, of which a
 * device takes only so many. */
static inline int32_t ts_cache_passes_for(int32_t passes, bool discrete) {
  return discrete && passes > TS_CACHE_PASSES_MAX ? TS_CACHE_PASSES_MAX
                                                  : passes;
}
/* Lines for N_ROWS rows: whole sets, one at least. */
int64_t ts_cache_lines_for(int64_t n_rows, double load_factor);
/* LINE[i]: the line of rows[i], -1 where it has none, N of them; AHEAD more
 * rows follow in the same array that will be looked for next. */
void ts_cache_find_many(const ts_cache *, const uint32_t *rows, int64_t n,
                        int64_t ahead, int32_t *line);
int64_t ts_cache_find(const ts_cache *, uint32_t row);
/* The line that a row of SET would be given, -1: all are locked. */
int64_t ts_cache_victim(const ts_cache *, int64_t set, uint32_t now);
/* Asks for the memory of what victim looks at. */
void ts_cache_expect_victim(const ts_cache *, int64_t set);

/* ---- the host moves rows (cache_move.c) ---------------------------------- */

enum { TS_CACHE_MOVE = 1024 }; /* rows at a time */
typedef struct ts_cache_move {
  uint32_t row[TS_CACHE_MOVE], slot[TS_CACHE_MOVE];
  int64_t n;
} ts_cache_move;

static inline void ts_cache_move_add(ts_cache_move *m, uint32_t row,
                                     uint32_t slot) {
  m->row[m->n] = row;
  m->slot[m->n++] = slot;
}

/* Writes lines OUT to slow memory, then reads rows IN, whose lines may be
 * those; both are empty afterwards.  A disk is asked for all of them first. */
ts_err ts_cache_exchange(const ts_cache *, ts_cache_move *out,
                         ts_cache_move *in);
/* Bits of the keys by which rows are sorted. */
int ts_cache_row_bits(const ts_cache *);
