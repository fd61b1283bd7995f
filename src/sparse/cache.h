/* cache.h - which row is in which line: a 32-way set-associative directory.
 *
 * A row's set is a hash of its number; within it the row may have any of 32
 * lines.  A line that a batch under way uses is locked and not given away;
 * among the others goes the one that was not used for longest (LRU), or the
 * one that was used least, where uses count half as much after AGE batches
 * (LFU).  A batch touches each line once, however often it has the row.
 *
 * Rows themselves are moved by who asks (tier_fill.c).  Not thread-safe,
 * but for what takes a const ts_cache, and mark.  All of it is Local. */
#ifndef TS_SPARSE_CACHE_H
#define TS_SPARSE_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

enum { TS_CACHE_WAYS = 32, TS_CACHE_AGE = 32 };
#define TS_CACHE_NONE UINT32_MAX

typedef struct ts_cache_line {
  uint32_t stamp; /* last batch that used it */
  uint32_t round; /* last round that locked or unlocked it */
  uint32_t count; /* uses, as of stamp */
  uint16_t locks; /* batches under way that use it */
  bool dirty;     /* differs from the row in slow memory */
} ts_cache_line;

typedef struct ts_cache {
  int64_t n_sets;
  uint32_t *tag; /* (lines) row of each, TS_CACHE_NONE: free */
  ts_cache_line *line;
  uint32_t now;    /* number of the batch at hand */
  uint32_t rounds; /* so far */
  int64_t n_locks; /* sum of all lines' */
  bool lfu;
} ts_cache;

/* Lines for N_ROWS rows: whole sets, one at least. */
int64_t ts_cache_lines_for(int64_t n_rows, double load_factor);
/* Bytes of the directory: of a line, of a row. */
enum { TS_CACHE_LINE_BYTES = 4 + sizeof(ts_cache_line) };

ts_err ts_cache_create(ts_cache *, int64_t n_rows, double load_factor,
                       bool lfu);
void ts_cache_reset(ts_cache *);
int64_t ts_cache_n_lines(const ts_cache *);

int64_t ts_cache_set_of(const ts_cache *, uint32_t row);
/* Line of ROW, -1 where it has none. */
int64_t ts_cache_find(const ts_cache *, uint32_t row);
/* LINE[i]: what find says of rows[i], N of them; AHEAD more rows follow in
 * the same array that will be looked for next. */
void ts_cache_find_many(const ts_cache *, const uint32_t *rows, int64_t n,
                        int64_t ahead, int32_t *line);
void ts_cache_expect(const ts_cache *, uint32_t row); /* find follows */
void ts_cache_expect_take(const ts_cache *, uint32_t row);

/* The next batch. */
void ts_cache_begin(ts_cache *);
/* The batch uses LINE once more; the first time (true) it is locked. */
bool ts_cache_use(ts_cache *, int64_t line);
/* A line for ROW, which has none: locked and used by the batch; -1 where all
 * of the set are locked.  *OLD is the row that had it, or TS_CACHE_NONE;
 * *DIRTY: it has to be written back first. */
int64_t ts_cache_take(ts_cache *, uint32_t row, uint32_t *old, bool *dirty);

/* Locks of a batch that is not the one at hand: in a round each line is
 * locked or unlocked once, however often it is met. */
void ts_cache_round_begin(ts_cache *);
bool ts_cache_unlock(ts_cache *, int64_t line); /* true where it did */
void ts_cache_lock(ts_cache *, int64_t line);

static inline void ts_cache_mark(ts_cache *c, int64_t line) {
  c->line[line].dirty = true;
}

#endif
