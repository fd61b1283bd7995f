/* dataset_impl.h - data sets in HDF5 that are open; private to dataset*.c.
 * All of it is Local. */
#pragma once

#include "io/dataset_array.h"
#include "io/source.h"

typedef struct ts_dataset_feature {
  ts_array values, offsets, weights;
  int64_t rows; /* that its ids need, by what the file says; 0: nothing */
} ts_dataset_feature;

typedef struct ts_dataset_file {
  ts_array_file in;
  int64_t first, n; /* samples */
  ts_array labels, dense, sample_weights;
  ts_dataset_feature *features;
} ts_dataset_file;

typedef struct ts_dataset {
  ts_source base;
  ts_dataset_file *files;
  int32_t n_files, n_features;
} ts_dataset;

/* dataset_rows.c: takes what the group NAME, a feature's, says of its ids; and
 * the source's needs (io/source.h). */
void ts_dataset_read_max(const ts_dataset_file *, ts_dataset_feature *,
                         const char *name);
ts_err ts_dataset_needs(ts_source *, ts_need *, bool sample);
