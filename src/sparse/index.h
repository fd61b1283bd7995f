/* index.h - where the rows of ids are: of tables whose ids are any 64-bit
 * number (rows = "dynamic"), for one shard.
 *
 * A bucketed table with open addressing.  An id is looked for by its key,
 * ts_index_key, which is a permutation of 64 bits, so that equal keys are
 * equal ids; the key's top bits say in which of TS_INDEX_PARTS parts it is,
 * and parts are dealt whole to shards.  The index grows by itself, moves
 * nothing else, and takes at most 16 bytes an id once nine tenths of its rows
 * are used.
 * All of it is Local, the host's memory; one caller at a time, but any number
 * of finds beside each other. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/hash.h"

enum { TS_INDEX_PART_BITS = 12, TS_INDEX_PARTS = 1 << TS_INDEX_PART_BITS };

/* At most, of each id, once nine tenths of the rows are used. */
enum { TS_INDEX_ID_BYTES = 16 };

/* The rows of a dynamic table's shard that ids have begin here: row 0 is
 * nobody's. */
enum { TS_INDEX_FIRST_ROW = 1 };

/* A row that is none. */
#define TS_INDEX_NONE UINT32_MAX

TS_HASH_INLINE uint64_t ts_index_key(int64_t id) {
  return ts_mix64((uint64_t)id);
}

/* Its part, in [0, TS_INDEX_PARTS). */
TS_HASH_INLINE int32_t ts_index_part(uint64_t key) {
  return (int32_t)(key >> (64 - TS_INDEX_PART_BITS));
}

/* Shard I of N that hold a table's rows has the parts [first_part(I, N),
 * first_part(I + 1, N)): whose an id is. */
TS_HASH_INLINE int32_t ts_index_shard(int64_t id, int32_t n) {
  const int64_t part = ts_index_part(ts_index_key(id));
  return (int32_t)(part * n >> TS_INDEX_PART_BITS);
}
TS_HASH_INLINE int32_t ts_index_first_part(int32_t i, int32_t n) {
  return (int32_t)(((int64_t)i * TS_INDEX_PARTS + n - 1) / n);
}

typedef struct ts_index ts_index;

/* Of rows [first_row, first_row + n_rows) of a shard, all free. */
ts_err ts_index_create(ts_index **, int64_t first_row, int64_t n_rows);
void ts_index_destroy(ts_index *);

int64_t ts_index_n(const ts_index *);     /* ids that have a row */
int64_t ts_index_bytes(const ts_index *); /* that it takes */

/* ROW[i] (n) = the row of the i-th of IDS, or TS_INDEX_NONE. */
void ts_index_find(const ts_index *, uint32_t *row, const int64_t *ids,
                   int64_t n);

/* The same, and ids that have none get one, in the order of IDS, while there
 * are free rows: those that were freed, the last one first, then the lowest
 * that was never used.  FRESH (n), *N_FRESH: places in IDS where an id got its
 * row, ascending.  MEMORY, after which the index is as it was before. */
ts_err ts_index_insert(ts_index *, uint32_t *row, const int64_t *ids, int64_t n,
                       int64_t *fresh, int64_t *n_fresh);

/* ID has a row no longer, and it is free; false: it had none. */
bool ts_index_erase(ts_index *, int64_t id);

/* All ids (ts_index_n) and their rows, by ascending key; any: in any order.
 * MEMORY. */
ts_err ts_index_list_any(const ts_index *, int64_t *ids, uint32_t *row);
ts_err ts_index_list(const ts_index *, int64_t *ids, uint32_t *row);

/* For who has a copy of it elsewhere (sparse/tbe_mirror.c).  watch: from now on
 * it is noted which buckets change.  changes: *N, how many have since it was
 * asked last, some of them more than once, and their numbers at *BUCKETS (until
 * the index changes again); *N -1: any of them, and ids, may have. */
void ts_index_watch(ts_index *);
void ts_index_changes(ts_index *, const uint32_t **buckets, int64_t *n);

/* Buckets of an index of N_ROWS once all of them are used. */
int64_t ts_index_buckets(int64_t n_rows);

/* How many steps along the buckets a find of each of IDS takes, in sum and at
 * most; 0: it is in the first one that is looked at. */
void ts_index_probes(const ts_index *, const int64_t *ids, int64_t n,
                     int64_t *sum, int64_t *most);
