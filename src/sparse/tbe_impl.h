/* tbe_impl.h - inside a group; private to tbe*.c.
 * Functions are Local unless they say Collective or Enqueues. */
#pragma once

#include "sparse/entries.h"
#include "sparse/tbe.h"

struct ts_tbe {
  ts_device *device;
  bool discrete; /* the host may not touch the device's memory */
  const ts_kernels *kernels;
  const ts_row_optim *optim; /* own, or the caller's */
  ts_row_optim own;
  double ema;         /* d of rows' means */
  int64_t average_at; /* lookups give means at the end of this pass; 0: rows */
  ts_tier *tier;
  ts_tbe_table *tables;
  int32_t n_tables, n_features, dim;
  ts_dtype dtype;
  bool mean;
  uint64_t seed;
  int64_t *row_base;        /* (n_tables + 1) first group row of each table */
  int64_t *feature_base;    /* (n_features) first group row of its table */
  int32_t *table_id;        /* (n_tables) */
  int64_t *first_row;       /* (n_tables) */
  int32_t *first_col;       /* (n_tables) */
  int32_t *row_dim;         /* (n_tables) of the whole row */
  ts_row_hyper *hyper;      /* (n_tables) of the backward pass that runs */
  int key_bits, table_bits; /* of a row of the group, of its table */
  int32_t *table_start;     /* (n_tables + 1) first feature of each table,
                               NULL where features are not in tables' order */
  int64_t *segment;         /* (n_tables + 1) scratch of the sort */
  int64_t *zero;            /* (n_features) base of slots */
  int32_t *feature_table;   /* (n_features) */
  struct ts_index **index;  /* (n_tables) of dynamic ones; NULL: none are */
  struct ts_tbe_mirror *mirror; /* tbe_mirror.c: of discrete devices; or NULL */
  struct ts_admit **admit; /* (n_tables) of dynamic ones, NULL: it admits all */
  ts_buffer firsts; /* (2, n_tables) row 0 of each, of groups that admit, and
                       where they are */
  uint32_t *born, *seen, *last; /* as in ts_tbe_ids, by rows of the group */
  float *score;
  int64_t *given; /* (n_tables) rows of each that have memory, the first ones;
                     NULL: all have */
  int64_t
      *row_id; /* (rows) of those that are not f32, whose ids they are:
                  stochastic rounding goes by it; else NULL, as with a mirror */
  /* scratch of the backward pass, device memory, grown by the lane that runs
   * it */
  ts_buffer keys[2], order[2], bag_of, grad_at, bag_scale;
  ts_buffer sums, sum_keys, stats, message, work;
  ts_buffer place;    /* of rows in a cached tier */
  ts_buffer ahead[2]; /* scratch of sort_ahead, of the lane that runs that */
  int64_t n_sums;     /* distinct rows in sums; known to the host */
  int64_t n_known;    /* what they will be; -1: the device is asked */
  /* tbe_keep.c: rows of the step's earlier micro-batches */
  ts_buffer kept_sums, kept_keys; /* (kept_max, dim) f32, (kept_max) */
  int64_t n_kept, kept_max;
  ts_buffer touched; /* (row_base[n_tables] + 31) / 32 words; or not owned */
  bool all_change;   /* whenever some do */
};

/* BAGS, which are IN's, of rows' means at the end of pass AT, made in the
 * group's scratch, in place of rows.  In tasks alone. */
ts_err ts_tbe_average(ts_tbe *, ts_lookup_args *bags, const ts_tbe_input *in,
                      int64_t at);
/* tbe_dynamic.c: indexes, empty.  met: rows were updated, those of ids that
 * were not admitted among them.  place_new: ROW (n) of IDS of table T, which
 * have none, of BATCH: n at most TS_TBE_SOME.  Both in tasks. */
enum { TS_TBE_SOME = 1024 };
ts_err ts_tbe_met(ts_tbe *);
ts_err ts_tbe_place_new(ts_tbe *, int32_t t, uint32_t *row, const int64_t *ids,
                        int64_t n, uint32_t batch);
/* Ids of a table that have got rows: those of IDS in the places FRESH (n), and
 * ROW says which, of all. */
typedef struct ts_new_ids {
  const uint32_t *row;
  const int64_t *ids, *fresh;
  int64_t n;
} ts_new_ids;
/* Their weights (STATE -1), which are drawn, or a state, zeros, of table T, in
 * the host's memory. */
void ts_tbe_begin_rows(ts_tbe *, int32_t t, int state, const ts_new_ids *);
/* tbe_mirror.c: the copy of indexes that a discrete device has; without one
 * create and destroy do nothing, and ids is NULL: whose the group's rows are,
 * device memory.  meet, of any dynamic group: rows KEYS (n, ascending) of it
 * are updated by pass PASS.  add: BATCH has brought these ids.  meet and add in
 * tasks. */
ts_err ts_mirror_create(ts_tbe *);
void ts_mirror_destroy(struct ts_tbe_mirror *);
/* The scores that an update adds to, device memory; NULL: rows have none. */
float *ts_mirror_score(const ts_tbe *);
const int64_t *ts_mirror_ids(const ts_tbe *);
ts_err ts_tbe_meet(ts_tbe *, const uint32_t *keys, int64_t n, int64_t pass);
ts_err ts_mirror_add(ts_tbe *, int32_t t, const ts_new_ids *, uint32_t batch);
ts_err ts_tbe_index_create(ts_tbe *);
void ts_tbe_index_destroy(ts_tbe *);
/* tbe_init.c: initial weights of IDS[PLACE[i]] (n) of table T to the i-th row
 * of TO, or where ROW is given to its ROW[PLACE[i]]-th.  TO is the host's. */
void ts_tbe_draw(ts_tbe *, int32_t t, void *to, const uint32_t *row,
                 const int64_t *ids, const int64_t *place, int64_t n);
/* Grows the scratch for N entries of N_BAGS bags. */
ts_err ts_tbe_reserve(ts_tbe *, int64_t n, int64_t n_bags);
/* The part of the update's arguments that depends on the group alone. */
ts_row_update_args ts_tbe_update_args(ts_tbe *, double lr_factor, int64_t pass);
/* keys and order, sorted, of INPUT's ids; fills the arguments' gradient. */
ts_err ts_tbe_sort(ts_tbe *, ts_row_update_args *, const float *grad,
                   const ts_tbe_input *);
/* The first N of keys and order, which are no table's own, sorted; fills the
 * arguments, whose gradients start at grad_at. */
ts_err ts_tbe_sort_sums(ts_tbe *, ts_row_update_args *, const float *grad,
                        int64_t n);
/* Where the rows of KEYS (n, sorted) are to be written: NULL where a row is
 * its own place. */
ts_err ts_tbe_locate(ts_tbe *, const uint32_t **place, const uint32_t *keys,
                     int64_t n);
/* The same, with what is kept of earlier micro-batches, which is used up. */
ts_err ts_tbe_entries(ts_tbe *, ts_row_update_args *, const float *grad,
                      const ts_tbe_input *);
/* tbe_touched.c, in tasks: rows KEYS (n, ascending) of the group are updated;
 * nothing where they are not tracked. */
ts_err ts_tbe_mark(ts_tbe *, const uint32_t *keys, int64_t n);
/* Sums of INPUT's distinct rows alone into sums, sum_keys, n_sums. */
ts_err ts_tbe_sum_batch(ts_tbe *, const float *grad, const ts_tbe_input *);
/* With what is kept. */
ts_err ts_tbe_sum(ts_tbe *, const float *grad, const ts_tbe_input *);
