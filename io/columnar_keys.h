/* columnar_keys.h - keys of folders: data/day=3/x.parquet has day, 3.
 * All of it is Local. */
#pragma once

#include "base/config.h"
#include "base/err.h"

/* The value of a row that has none, as Hive writes it. */
#define TS_COLUMNAR_NO_KEY "__HIVE_DEFAULT_PARTITION__"

/* The folders NAME=VALUE of PATH behind its last "/./": names, and where VALUES
 * is not NULL, values; in both %20 is a blank.  To be freed in any case. */
ts_err ts_columnar_keys(ts_strings *names, const char *path,
                        ts_strings *values);
void ts_columnar_keys_free(ts_strings *);
/* Appends the file PATH, whose first ROOT bytes are of no key: with "./" behind
 * them where there may be one. */
ts_err ts_columnar_add(ts_strings *paths, const char *path, size_t root);
/* Appends the Parquet and Arrow files below the folder PATH so, by name, but
 * those that begin with a dot or "_". */
ts_err ts_columnar_files(ts_strings *paths, const char *path, size_t root);
