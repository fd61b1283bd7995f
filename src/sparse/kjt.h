/* kjt.h - keyed jagged tensors: the sparse features of a batch.
 *
 * Plain data; who owns the arrays is said where a ts_kjt is handed out.
 * Features are in the order of the deck: tables in order, and each table's
 * features in order. */
#ifndef TS_SPARSE_KJT_H
#define TS_SPARSE_KJT_H

#include <stdint.h>

/* One feature: B bags of ids. */
typedef struct ts_jagged {
  const int32_t *lengths; /* (B), or NULL: exactly one id in every bag */
  const int64_t *ids;     /* (n_ids) global row ids */
  const float *weights;   /* (n_ids) or NULL */
  int64_t n_ids;
} ts_jagged;

typedef struct ts_kjt {
  ts_jagged *features; /* (n_features) */
  int32_t n_features;
  int32_t batch; /* B, bags per feature */
} ts_kjt;

#endif
