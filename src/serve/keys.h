/* keys.h - which rows are whose, of a dynamic table that is served: a row's
 * place is that of its id's key among all keys, which ascend.
 *
 * Keys are spread evenly (sparse/index.h), so a directory by their size says
 * where one is to within a few: a find waits for one line of the directory and
 * one or two of the keys, and finds wait together.  It takes a byte an id, and
 * the file has 8.
 * Functions are Local. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

typedef struct ts_serve_keys {
  const uint64_t *key; /* (n) ascending, the file's */
  int64_t n;
  uint32_t *start; /* (n_runs + 1) where the keys of a run begin */
  uint64_t n_runs;
} ts_serve_keys;

/* More keys than these have no directory. */
#define TS_SERVE_KEYS_MAX UINT32_MAX

/* *GOOD: the N keys ascend; else there is no directory.  MEMORY. */
ts_err ts_serve_keys_create(ts_serve_keys *, const uint64_t *key, int64_t n,
                            bool *good);
void ts_serve_keys_reset(ts_serve_keys *);
/* Each of the M IDS becomes its row, or n, the row of zeros of all others. */
void ts_serve_keys_find(const ts_serve_keys *, int64_t *ids, int64_t m);
/* Whose row ROW is; ROW where it is none's. */
int64_t ts_serve_keys_id(const ts_serve_keys *, int64_t row);
