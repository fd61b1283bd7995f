/* batch_store.h - the arrays that a source fills for one batch; private to
 * io/.
 *
 * All of a batch lies in one arena.  With data.input = "columns" a source
 * writes each feature's ids there; with "kjt" it writes them to a second
 * arena, from which ts_batch_store_end puts all features' ids, lengths and
 * weights together, as one array each.  All of it is Local. */
#pragma once

#include "base/features.h"
#include "io/batch_arena.h"
#include "io/source.h"

/* How a feature says where its bags end. */
typedef enum {
  TS_BAGS_ONE,     /* one id in each */
  TS_BAGS_LENGTHS, /* lengths (n) */
  TS_BAGS_OFFSETS  /* offsets (n + 1) from 0 */
} ts_bag_form;

enum { TS_PART_BAGS, TS_PART_IDS, TS_PART_WEIGHTS, TS_PART_COUNT };

/* Addresses hold until the next call of ts_batch_store_feature or _end. */
typedef struct ts_feature_store {
  int32_t *lengths; /* (n), TS_BAGS_LENGTHS only */
  int64_t *offsets; /* (n + 1), TS_BAGS_OFFSETS only */
  int64_t *ids;
  float *weights; /* NULL where the feature has none */
  ts_bag_form bags;
  bool weighted;
  ts_batch_piece part[TS_PART_COUNT];
} ts_feature_store;

/* The table that a feature's ids are rows of, and the first feature that has
 * the same column. */
typedef struct ts_feature_of {
  const ts_table_config *table;
  const char *name;
  int32_t first;
  int64_t rows; /* ids are below: the table's; of times any number */
} ts_feature_of;

struct ts_batch_store {
  ts_batch batch;
  ts_feature_store *feature; /* (n_features) */
  ts_feature_of *of;         /* (n_features) the deck's: found once */
  float *labels, *dense, *weights;
  ts_batch_piece labels_piece, dense_piece, weights_piece;
  ts_batch_arena arena;    /* of the batch */
  ts_batch_arena stage;    /* kjt: where sources write */
  ts_batch_arena *sources; /* of the two, the one where sources write */
  bool has_weights;
  /* For a model, which gets what its deck says beside what the data have: the
   * candidates of targets, rows of parts, and times, whose bags are emptied
   * then. */
  bool for_model;
  int32_t times; /* the feature whose ids are times; -1: none */
  ts_batch_piece time_bags, time_ids;
  struct ts_targets *targets; /* io/targets.h; NULL: no output over items */
};

/* Room for N samples with T labels and N_DENSE numbers each; sets the batch's
 * pointers.  WEIGHTS: with sample weights, all 1. */
ts_err ts_batch_store_begin(ts_batch_store *, int32_t n, int32_t n_tasks,
                            int32_t n_dense, bool weights);
/* Makes room for N_IDS ids of feature F in bags of that kind, which the source
 * fills.  Keeps the content. */
ts_err ts_batch_store_feature(ts_batch_store *, int32_t f, int64_t n_ids,
                              ts_bag_form, bool weighted);
/* The same where bags, as they were filled, are to get more or fewer ids: with
 * one id each they get lengths, of 1. */
ts_err ts_batch_store_open(ts_batch_store *, int32_t f, int64_t n_ids);
/* Empties feature F's bags: none of its rows are looked up. */
ts_err ts_batch_store_clear(ts_batch_store *, int32_t f);
/* Feature F's ids are those of the first of its column: the same data for as
 * many rows.  Sources leave it out; ts_batch_store_end gives it those arrays.
 */
bool ts_batch_store_is_same(const ts_batch_store *, int32_t f);
/* Feature F gets a copy of the ids as read of the first feature of its column;
 * where F has weights and that one has none they are 1. */
ts_err ts_batch_store_copy(ts_batch_store *, int32_t f);
/* Empties the bags of skipped records (weight 0) in features with one id per
 * sample. */
ts_err ts_batch_store_empty_bad(ts_batch_store *);
/* The batch is read: puts a kjt together, sets the batch's weight sum. */
ts_err ts_batch_store_end(ts_batch_store *);

/* The batch is read: ids of features whose tables are parts of one (compress.h)
 * become the parts' rows.  DATA where a bag has more ids than they take. */
ts_err ts_batch_store_map(ts_batch_store *);

/* Leaves the first MOST ids of each of feature F's bags, or the last (NEWEST).
 */
ts_err ts_batch_store_cut(ts_batch_store *, int32_t f, int64_t most,
                          bool newest);

/* Each sample's weight times 1 + (POSITIVE - 1) y, y being its first label. The
 * batch has weights, and is read. */
void ts_batch_store_weigh(ts_batch_store *, double positive);

/* Sample of the batch with the first bad id of feature F, -1: all are rows. */
int64_t ts_batch_store_bad_sample(const ts_batch_store *, int32_t f);
/* Checks the ids of feature F, drops bad ones where the deck says so.  WHERE
 * and FIRST (the first sample's number in it) are for the message. */
ts_err ts_batch_store_check_ids(ts_source *, ts_batch_store *, int32_t f,
                                const char *where, int64_t first);
