/* columns.h - the one schema of the input's columns: what data.columns says,
 * and where a deck has none, what data.csv and the format's keys say.  Readers
 * ask here and nowhere else.
 * All of it is Local. */
#pragma once

#include "base/config.h"
#include "base/err.h"

/* Feature F's column (of kind ids, or a part of a time), all its words filled
 * in: from, encoding and list_separator are never NULL.  The strings are the
 * deck's. */
ts_column_config ts_column_of_feature(const ts_config *, int32_t f);
/* How feature F's ids become rows: what its column says, else USUAL. */
const char *ts_column_encoding(const ts_config *, int32_t f, const char *usual);

/* data.columns says where features are. */
bool ts_columns_have_ids(const ts_config *);

/* The dense inputs that the deck names (0: those that the files have), and the
 * I-th of them, its transform filled in. */
int32_t ts_column_n_dense(const ts_config *);
ts_column_config ts_column_of_dense(const ts_config *, int32_t i);
/* The transform of dense input I: its column's; where that says none, USUAL;
 * and where USUAL is NULL, data.csv.dense_transform. */
const char *ts_column_transform(const ts_config *, int32_t i,
                                const char *usual);

/* The labels, one at least; task K's. */
int32_t ts_column_n_labels(const ts_config *);
ts_column_config ts_column_of_label(const ts_config *, int32_t k);

/* Task K's where data.columns has labels, else NULL. */
const ts_column_config *ts_column_given_label(const ts_config *, int32_t k);
/* The first task that has task K's label. */
int32_t ts_column_first_label(const ts_config *, int32_t k);
/* The column in the files that says which samples count for task K; NULL: all
 * do. */
const char *ts_column_where(const ts_config *, int32_t k);

/* Where samples' weights are; NULL: the deck does not say. */
const char *ts_column_weight(const ts_config *);

/* Where the column that the deck calls NAME is in the files; NAME where the
 * deck has none of that name. */
const char *ts_column_from(const ts_config *, const char *name);

/* Names of the columns of kind key, which stay the deck's; ITEM is to be freed.
 */
ts_err ts_column_keys(ts_strings *names, const ts_config *);

/* An error where a column asks for what files of numbers alone do not have;
 * FORMAT is for the message. */
ts_err ts_columns_of_numbers(const ts_config *, const char *format);
