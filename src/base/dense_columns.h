/* dense_columns.h - a batch's dense row: the numbers that columns become.  A
 * deck counts columns (model.dense_features); one may become several numbers
 * (transform piecewise_linear), which stand side by side.
 * All of it is Local. */
#pragma once

#include "base/config.h"

/* What column X is read as: a part of a time is the id of the feature of its
 * name, or a number. */
ts_column_kind ts_column_kind_of(const ts_config *, const ts_column_config *x);

/* Numbers that column X, of kind dense, becomes: 1 or more. */
int32_t ts_dense_outputs(const ts_column_config *x);

/* Columns of a dense row that column K of the deck's becomes. */
typedef struct ts_dense_span {
  int32_t first, n;
} ts_dense_span;
ts_dense_span ts_dense_column(const ts_config *, int32_t k);

/* Floats of a sample's dense row; 0: it has none. */
int32_t ts_dense_width(const ts_config *);
