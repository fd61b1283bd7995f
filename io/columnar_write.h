/* columnar_write.h - any data source as Parquet, or as Arrow's own files. */
#pragma once

#include "io/source.h"

/* All samples of SOURCE to PATH, under a temporary name until all is written:
 * a column for each label, dense number and feature, by the deck's names
 * (NAME_label and NAME_number where a feature has the same one), and
 * sample_weight where samples have one.  Ids are those of tables' rows, a list
 * where samples have several, with weights where a table wants them.  All ranks
 * look at the samples, and rank 0 writes them; into a folder, PATH ending in
 * "/", each rank writes its part of them, part-00000 being that of rank 0.
 * Collective. */
ts_err ts_columnar_write(const char *path, ts_source *source, ts_comm *);
ts_err ts_columnar_write_arrow(const char *path, ts_source *source, ts_comm *);
/* A file of such a folder is called NAME.  Local. */
bool ts_columnar_is_part(const char *name);
