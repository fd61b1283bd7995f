/* criteo_impl.h - inside the source of Criteo's logs; private to criteo*.c.
 * All of it is Local. */
#pragma once

#include "io/batch_store.h"
#include "io/text.h"

enum { N_DENSE = 13, N_SPARSE = 26 };

/* How a feature's ids become rows. */
typedef struct ts_criteo_ids {
  int column;    /* from 0 */
  int32_t input; /* of a bucket: io/scales.h; -1 */
  bool hashed, words;
  uint64_t start; /* of the hash */
  uint32_t rows;  /* 0: over 2^32 - 1, which takes all ids */
} ts_criteo_ids;

typedef struct ts_criteo {
  ts_source base;
  ts_text *text;
  int32_t n_dense, n_features;
  ts_criteo_ids *ids; /* (n_features) */
  int32_t *number;    /* the columns of the dense inputs, and of the features
                         that are made of numbers, as io/scales.h has them */
  float *log1p;       /* (LOG_TABLE) */
} ts_criteo;

/* criteo_columns.c: finds the deck's columns. */
ts_err ts_criteo_columns(ts_criteo *);
