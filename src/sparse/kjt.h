/* kjt.h - keyed jagged tensors: the sparse features of a batch.
 *
 * Plain data; who owns the arrays is said where a ts_kjt is handed out.
 * Features are in the order of the deck: tables in order, and each table's
 * features in order.  Those of one name whose tables have as many rows, and
 * weights alike, have the same ids, lengths and weights, and may have the same
 * arrays.  All of it is Local. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* One feature: B bags of ids. */
typedef struct ts_jagged {
  const int32_t *lengths; /* (B), or NULL: as offsets say */
  const int64_t *offsets; /* (B + 1) from 0, or NULL: as lengths say; both
                             NULL: exactly one id in every bag */
  const int64_t *ids;     /* (n_ids) global row ids */
  const float *weights;   /* (n_ids) or NULL */
  int64_t n_ids;
} ts_jagged;

/* When the tokens of samples were, and with one more when what comes next is
 * asked for: sample b's times are ids[bags[b]] to ids[bags[b + 1] - 1].  bags
 * NULL: nobody asks. */
typedef struct ts_event_times {
  const int64_t *bags, *ids; /* (B + 1) */
} ts_event_times;

/* Of a feature whose rows are given once each (shard/ebc.h): which of the
 * N_ROWS rows each of a batch's N_IDS ids is, and those of each row: its places
 * in index are member[k], member_start[u] <= k < member_start[u + 1],
 * ascending.  Arrays are device memory. */
typedef struct ts_spread {
  const int32_t *index;        /* (n_ids) */
  const int32_t *member_start; /* (n_rows + 1) */
  const int32_t *member;       /* (n_ids) */
  int64_t n_ids, n_rows;
} ts_spread;

static inline bool ts_jagged_is_one(const ts_jagged *j) {
  return !j->lengths && !j->offsets;
}

/* Ids in bag B. */
static inline int64_t ts_jagged_length(const ts_jagged *j, int32_t b) {
  return j->lengths   ? j->lengths[b]
         : j->offsets ? j->offsets[b + 1] - j->offsets[b]
                      : 1;
}

typedef struct ts_kjt {
  ts_jagged *features; /* (n_features) */
  int32_t n_features;
  int32_t batch; /* B, bags per feature */
  /* Where the features' arrays are parts of one each, in their order (of
   * lengths and weights those that features have; what several features have
   * is there once), else NULL. */
  const int64_t *values;
  const int32_t *lengths;
  const float *weights;
  int64_t n_ids; /* of all features; those that several have count once */
} ts_kjt;
