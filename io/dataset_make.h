/* dataset_make.h - the frame of a data set file that is written: what is in it,
 * and where its arrays begin, for those who fill them.  All of it is Local and
 * under the lock of io/hdf5.h. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "io/hdf5.h"

/* The file TEMP, in the place of one that was left there: format, version and
 * num_samples = N.  *FILE is for ts_hdf5_close, and -1 where it failed. */
ts_err ts_dataset_make(hid_t *file, const char *temp, int64_t n);

/* Dataset NAME: (rows), or (rows, cols) of more than one column.  *AT: the byte
 * of TEMP where it begins; 0 of an empty one. */
ts_err ts_dataset_make_array(hid_t file, const char *name, hid_t type,
                             int64_t rows, int64_t cols, int64_t *at);

/* A feature's group, sparse/NAME. */
typedef struct ts_dataset_bags {
  int64_t n_ids, max_id; /* max_id: -1 where there are none */
  bool offsets, weights; /* it has them */
  struct {
    int64_t values, offsets, weights;
  } at; /* bytes in the file */
} ts_dataset_bags;

/* sparse/FEATURE for N samples; fills in B->at. */
ts_err ts_dataset_make_feature(hid_t file, const char *feature, int64_t n,
                               ts_dataset_bags *b);
