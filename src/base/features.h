/* features.h - the features of a deck's tables, in the deck's order.
 *
 * A feature may be in several tables: it has a number in each of them, and one
 * column in the data.  All of it is Local. */
#pragma once

#include "base/config.h"
#include "base/err.h"

/* The table of feature F, and the feature's name (NULL: not asked for): looks
 * through the tables, so for what is done once. */
const ts_table_config *ts_feature_table(const ts_config *, int32_t f,
                                        const char **name);
int32_t ts_feature_count(const ts_config *);
/* NAME is that of feature I of table T: "f", or "f@t", T being t or a part of
 * it. */
bool ts_feature_is(const ts_table_config *t, int32_t i, const char *name);
/* The first feature called NAME, or the one of table T that is called
 * "NAME@T"; -1: there is none. */
int32_t ts_feature_find(const ts_config *, const char *name);
/* The feature whose ids are times (ts_layer_config.times), of which the deck
 * has one at most; -1: there is none. */
int32_t ts_feature_of_times(const ts_config *);
/* Feature F's number among the N that are given one by one: F itself, or,
 * where that is fewer than there are features, that of its column.  Looks
 * through all features again and again. */
int32_t ts_feature_column(const ts_config *, int32_t f, int32_t n);

/* Which features have one column. */
typedef struct ts_feature_columns {
  int32_t *first;  /* (n_features) the first feature of the same name */
  int32_t *column; /* (n_features) the number of that name, from 0 */
  int32_t n_features, n;
} ts_feature_columns;

ts_err ts_feature_columns_create(ts_feature_columns *, const ts_config *);
void ts_feature_columns_reset(ts_feature_columns *);
