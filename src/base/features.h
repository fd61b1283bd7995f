/* features.h - the features of a deck's tables, in the deck's order.
 * All of it is Local. */
#pragma once

#include "base/config.h"

/* The table of feature F, and the feature's name (NULL: not asked for): looks
 * through the tables, so for what is done once. */
const ts_table_config *ts_feature_table(const ts_config *, int32_t f,
                                        const char **name);
int32_t ts_feature_count(const ts_config *);
