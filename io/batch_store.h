/* batch_store.h - growing arrays that a source fills for one batch; private
 * to io/. */
#ifndef TS_IO_BATCH_STORE_H
#define TS_IO_BATCH_STORE_H

#include "io/source.h"

typedef struct ts_feature_store {
  int32_t *lengths; /* (n) */
  int64_t *ids;
  float *weights;
  size_t lengths_bytes, ids_bytes, weights_bytes; /* capacities */
} ts_feature_store;

struct ts_batch_store {
  ts_batch batch;
  ts_feature_store *feature; /* (n_features) */
  float *labels, *dense, *weights;
  size_t labels_bytes, dense_bytes, weights_bytes;
};

/* Room for N samples with T labels and D numbers each; sets the batch's
 * pointers.  WEIGHTS: with sample weights, all 1. */
ts_err ts_batch_store_begin(ts_batch_store *, int32_t n, int32_t n_tasks,
                            int32_t n_dense, bool weights);
/* Room for N_IDS ids of feature F; LENGTHS: bags have lengths, else one id
 * each.  What it returns is filled by the source.  Keeps the content. */
ts_err ts_batch_store_feature(ts_batch_store *, int32_t f, int64_t n_ids,
                              bool lengths, bool weighted);
/* Where records were skipped (weight 0): makes their bags empty, in features
 * with one id per sample. */
ts_err ts_batch_store_empty_bad(ts_batch_store *);
/* Sets the batch's weight sum from its weights. */
void ts_batch_store_end(ts_batch_store *);

/* The table of feature F, and the feature's name. */
const ts_table_config *ts_feature_table(const ts_config *, int32_t f,
                                        const char **name);
int32_t ts_feature_count(const ts_config *);

/* Checks the ids of feature F, drops bad ones where the deck says so.  WHERE
 * and FIRST (the first sample's number in it) are for the message. */
ts_err ts_batch_store_check_ids(ts_source *, ts_batch_store *, int32_t f,
                                const char *where, int64_t first);

#endif
