/* tier.h - where a group's rows live.
 *
 * Lookup and backward go through slots: places in the arrays weights() and
 * state().  "resident": all rows are in fast memory and a row is its own
 * slot.  "host": all rows are in slow memory, and a row is its own slot, too.
 * "cached": slow memory holds all rows, and a row that a batch uses has a
 * line of fast memory, whose slot hold() gives; a row for which no line is
 * free has its own slot in slow memory, and is read and written there.
 * States with one float per row are in fast memory always, by row.  Slow
 * memory is always the host's; kernels of the device do all but rows() and
 * figures() (tier_slow.c).
 * Functions are Local unless they say Collective or Enqueues. */
#pragma once

#include "base/dtype.h"
#include "runtime/device.h"
#include "kernel_table.h"
#include "sparse/row_optim.h"

typedef struct ts_tier ts_tier;

typedef struct ts_tier_spec {
  int64_t n_rows;
  bool grows; /* rows get memory by give, where the tier has it */
  int32_t dim;
  ts_dtype dtype;
  int n_states;
  int32_t state_cols[TS_ROW_STATES_MAX]; /* floats of a row: dim or 1 */
  bool state_per_row[TS_ROW_STATES_MAX]; /* one: is in fast memory */
  const ts_kernels *kernels;
  /* Tables: rows [row_base[t], row_base[t + 1]); borrowed. */
  const int64_t *row_base;
  int32_t n_tables;
  /* Tiers with slow memory: the folder of its files, NULL: host memory. */
  const char *dir;
  double load_factor;
  bool lfu;
  int32_t passes;   /* of hold; >= 1 */
  int64_t min_pass; /* least ids of a pass */
} ts_tier_spec;

/* Counts of one table since creation.  Unique rows are those that differ
 * within a batch: hits and misses together. */
typedef struct ts_tier_count {
  int64_t n_ids, n_unique, n_hits, n_misses;
  int64_t n_conflicts;         /* misses for which no line was free */
  int64_t n_evicted;           /* lines given away */
  int64_t n_written;           /* of them: were dirty, written back */
  int64_t bytes_in, bytes_out; /* between the tiers, in whole lines */
} ts_tier_count;

typedef struct ts_tier_figures {
  const ts_tier_count *count; /* (n_tables) */
  double hold_s;              /* spent in hold, by who does the work */
  const double *table_s;      /* (n_tables) of it for each table's rows, by how
                                 many were looked for and fetched; or NULL */
  int64_t n_lines, fast_bytes, slow_bytes;
  int64_t scratch_bytes; /* of hold, reserved */
  int64_t n_locks;       /* of all lines, now */
  int64_t n_launches;    /* of kernels in the last hold; 0 on the host */
} ts_tier_figures;

typedef struct ts_tier_ops {
  const char *kind; /* "resident", "cached", "host" */
  bool cached;      /* rows have to be held before they are used */
  ts_err (*create)(ts_tier **, ts_device *, const ts_tier_spec *);
  void (*destroy)(ts_tier *);
  /* SLOTS (n) are a batch's rows of the group; then their slots, filled.
   * Lines stay until they are released: each row is held once, however often
   * it is in the batch.  Runs in a task of LANE; one hold, release or locate
   * at a time. */
  ts_err (*hold)(ts_tier *, uint32_t *slots, int64_t n, ts_lane *);
  ts_err (*release)(ts_tier *, const uint32_t *slots, int64_t n, ts_lane *);
  /* Slots of held rows that had no line, where a later batch that is held was
   * given one.  Not beside a hold. */
  ts_err (*refresh)(ts_tier *, uint32_t *slots, int64_t n);
  /* Slots of the rows that an update is about to write: at the first of
   * equal KEYS (n, sorted).  Where they are now, which for a row that had no
   * line may be one that a later batch was given. */
  ts_err (*locate)(ts_tier *, uint32_t *slots, const uint32_t *keys, int64_t n);
  /* Row 0 of all rows whole (k = -1: weights, else state k), one after the
   * other.  They are true after flush, and until the next update; who writes
   * them calls reload.  The lanes must be idle. */
  void *(*rows)(ts_tier *, int k);
  ts_err (*flush)(ts_tier *);
  ts_err (*reload)(ts_tier *);
  /* Rows [row0, row0 + n) have memory, of a tier that grows: they had none.
   * NOMEM.  NULL: all rows have some from the start. */
  ts_err (*give)(ts_tier *, int64_t row0, int64_t n);
  void *(*weights)(ts_tier *);       /* (slots, dim) */
  float *(*state)(ts_tier *, int k); /* (slots, dim) or (rows) */
  /* Where the memory of a device is discrete: slots from first_line on are not
   * in weights() (k = -1) or state() but in (lines, dim) of their own.  NULL,
   * or 0: all slots are in one array. */
  void *(*lines)(ts_tier *, int k);
  uint32_t (*first_line)(ts_tier *);
  ts_tier_figures (*figures)(const ts_tier *); /* may be NULL */
} ts_tier_ops;

struct ts_tier {
  const ts_tier_ops *ops;
};

/* NULL: there is no such kind. */
const ts_tier_ops *ts_tier_find(const char *kind);
/* The tier of groups whose deck names none: resident, unless OPS is not NULL
 * (tests). */
const ts_tier_ops *ts_tier_default(void);
void ts_tier_set_default(const ts_tier_ops *ops);
