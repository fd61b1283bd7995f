/* entries.h - the kernels of the backward pass around sort and row_update:
 * what is sorted, and sums of rows of several batches or ranks.
 *
 * Arrays are device memory; what is host memory is read before the call
 * returns. */
#pragma once

#include <stdint.h>

/* Kernel entries: an entry for each id i of a group with F features, bags and
 * ids as in ts_lookup_args:
 *   keys[i]      = row_base[f] + rows[i], the row of the group
 *   order[i]     = the bag, or where bag_of is there i itself
 *   bag_of[i]    = the bag
 *   bag_scale[j] = 1 / length of bag j, of an empty one 1 */
typedef struct ts_entries_args {
  uint32_t *keys, *order;   /* (N) */
  uint32_t *bag_of;         /* (N) or NULL */
  float *bag_scale;         /* (bags) or NULL */
  const int64_t *offsets;   /* (bags + 1) */
  const int32_t *rows;      /* (N) */
  const int64_t *bag_start; /* (F + 1) from 0, host memory */
  const int64_t *row_base;  /* (F) host memory */
  int32_t n_features;       /* F */
} ts_entries_args;

/* Kernel append: entries [first, first + n) for N rows whose gradients are
 * summed already, from offset on, DIM floats each:
 *   keys[i] = from[i - first], order[i] = i, at[i] = offset + (i - first) dim
 */
typedef struct ts_append_args {
  uint32_t *keys, *order; /* (first + n) */
  int64_t *at;            /* (first + n) floats */
  const uint32_t *from;   /* (n) */
  int64_t first, n, offset;
  int32_t dim;
} ts_append_args;

/* Kernel find: at[k] = how many of KEYS are below row[k].  The host needs
 * them: they are there when the call returns. */
typedef struct ts_find_args {
  const uint32_t *keys; /* (n) ascending */
  int64_t n;
  const int64_t *row; /* (m) host memory */
  int64_t *at;        /* (m) host memory */
  int32_t m;
} ts_find_args;

/* Kernel add_rows: to[keys[i]] += sums[i], rows of DIM floats. */
typedef struct ts_add_rows_args {
  float *to;
  const uint32_t *keys; /* (n) distinct */
  const float *sums;    /* (n, dim) */
  int64_t n;
  int32_t dim;
} ts_add_rows_args;

/* Kernel mark_rows: bit keys[i] % 32 of bits[keys[i] / 32] is set; the other
 * bits stay. */
typedef struct ts_mark_rows_args {
  uint32_t *bits;
  const uint32_t *keys; /* (n) ascending, equal ones beside each other */
  int64_t n;
} ts_mark_rows_args;

/* Kernel take_rows: out[i] = from[rows[i]], rows of ROW_BYTES bytes, which are
 * a multiple of 2. */
typedef struct ts_take_rows_args {
  void *out;            /* (n, row_bytes) */
  const void *from;     /* (rows, row_bytes) */
  const uint32_t *rows; /* (n) */
  int64_t n, row_bytes;
} ts_take_rows_args;

/* The same in the host's memory alone, whatever the device: slow tiers.
 * Local. */
void ts_take_rows(const ts_take_rows_args *);
