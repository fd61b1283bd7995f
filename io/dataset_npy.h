/* dataset_npy.h - arrays of NumPy's as those of a data set; private to
 * dataset_npy*.c and npy.c.  All of it is Local. */
#pragma once

#include "io/arrays.h"
#include "io/dataset_impl.h"

/* X as rows of COLS elements, from its column COLUMN on, to be read as AS. */
ts_err ts_npy_view(ts_array *, ts_arrays *in, const ts_named_array *x,
                   ts_view_to as, int64_t column, int64_t cols,
                   int64_t row_bytes);
/* An error where X is not (N) or (N, K), RANK_MAX 1: (N) or (N, 1). */
ts_err ts_npy_check_shape(const ts_named_array *x, int rank_max);
/* X, of such a shape, as A. */
ts_err ts_npy_open(ts_array *, ts_arrays *in, const ts_named_array *x,
                   ts_view_to as, int rank_max);
/* The arrays of dense inputs, and of those that features are buckets of, each
 * once; the texts are the deck's. */
ts_err ts_npy_dense_names(const ts_dataset *, ts_strings *names);

/* The arrays of a feature: IDS of its name, or with one of OFFSETS and LENGTHS;
 * or column COLUMN of IDS.  No ids: there are none. */
typedef struct ts_npy_feature {
  const ts_named_array *ids, *offsets, *lengths;
  int64_t column; /* -1: ids are the feature's alone */
} ts_npy_feature;

/* Finds the arrays of feature I, which are called NAME. */
ts_err ts_npy_find_feature(const ts_dataset *, const ts_dataset_file *f,
                           int32_t i, const char *name, ts_npy_feature *);
