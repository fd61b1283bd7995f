/* topk_items.h - the items of a table, or those whose vectors layers make, a
 * part on each rank, and which of them score best with some vectors; private to
 * train/topk*.c.
 * Functions are Local unless they say Collective. */
#pragma once

#include "base/err.h"
#include "train/trainer.h"

/* Items in blocks of so many, which lie column by column, so that a register
 * has several items and each score is a sum in the order of the columns. */
enum { TS_ITEM_BLOCK = 64 };

typedef struct ts_item_part {
  float *x;         /* (blocks, dim, TS_ITEM_BLOCK), zeros behind the last */
  int64_t first, n; /* ids */
  int64_t *id;      /* (n) theirs, in any order; NULL: first, first + 1, .. */
  int32_t dim;
} ts_item_part;
/* For qsort, of ids. */
static inline int ts_item_by_id(const void *a, const void *b) {
  const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}
static inline int64_t ts_item_part_id(const ts_item_part *p, int64_t i) {
  return p->id ? p->id[i] : p->first + i;
}

/* Items that are left out: of vector q those from start[q] on, ascending. */
typedef struct ts_left_out {
  const int64_t *start; /* (n + 1) */
  const int64_t *id;
} ts_left_out;

typedef struct ts_found {
  int64_t id; /* -1: none */
  float score;
  float pad;
} ts_found;

/* A is to stand before B. */
static inline bool ts_found_before(const ts_found *a, const ts_found *b) {
  if (a->id < 0 || b->id < 0) return b->id < 0 && a->id >= 0;
  return a->score != b->score ? a->score > b->score : a->id < b->id;
}

/* Rank r's part is the r-th of as even ones as can be of the N ids from FIRST
 * on. */
void ts_item_part_set(ts_item_part *, int64_t first, int64_t n, int rank,
                      int n_ranks);
/* Room for N items; and X (dim), of length 1 where NORMED, is item AT. */
ts_err ts_item_part_room(ts_item_part *, int64_t n);
void ts_item_part_put(ts_item_part *, int64_t at, const float *x, bool normed);
/* Its items by lookup of FEATURE, of length 1 where NORMED; device and lanes
 * are T's.  Collective. */
ts_err ts_item_part_look_up(ts_item_part *, ts_trainer *t, int32_t feature,
                            bool normed);
/* Its items, and their ids, are those of data.items from the task's first_item
 * on that this rank reads, by the layers that make TASK's items; *N_BELOW: how
 * many it has left out.  LIKE has learnt the words.  An id that is there twice
 * is a DATA error.  Collective. */
ts_err ts_item_part_run(ts_item_part *p, ts_trainer *t,
                        const ts_task_config *task, const ts_source *like,
                        int64_t *n_below);
/* FOUND (n, k) = the K best of the part for each of N vectors of QUERY (n,
 * dim), in their order; all threads. */
ts_err ts_item_part_rank(const ts_item_part *, const float *query, int64_t n,
                         int32_t k, const ts_left_out *, ts_found *found);
