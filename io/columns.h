/* columns.h - the one schema of the input's columns: what data.columns says,
 * and where a deck has none, what data.csv and the format's keys say.  Readers
 * ask here and nowhere else.
 * All of it is Local. */
#pragma once

#include "base/config.h"

/* Feature F's column (of kind ids), all its words filled in: from, encoding
 * and list_separator are never NULL.  The strings are the deck's. */
ts_column_config ts_column_of_feature(const ts_config *, int32_t f);
