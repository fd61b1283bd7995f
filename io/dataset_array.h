/* dataset_array.h - one array of a data set's file; private to dataset*.c.
 * All of it is Local. */
#pragma once

#include <hdf5.h>

#include "base/err.h"
#include "io/view.h"

/* One file, open both ways. */
typedef struct ts_array_file {
  char *path;
  hid_t file;
  int fd;
  const char *map; /* the whole file; NULL: it is read */
  int64_t n_bytes;
  struct ts_arrays *arrays; /* NumPy's (io/dataset_npy.c), then nothing of the
                               above; owned; NULL: it is HDF5 */
} ts_array_file;

/* One array in a file; rows of COLS elements. */
typedef struct ts_array {
  hid_t set;        /* -1: absent; of NumPy's 0 */
  int64_t at;       /* offset in the file, -1: through HDF5 */
  const char *base; /* the rows, where the file is mapped; else NULL */
  int64_t rows, cols;
  hid_t type;           /* in memory */
  size_t size;          /* bytes of an element */
  ts_array_view *views; /* (n_views) of NumPy's, side by side, without base */
  int32_t n_views;
  ts_view_to as;
} ts_array;

/* Finds how large F is; maps it. */
ts_err ts_array_size(ts_array_file *);
ts_err ts_array_map(ts_array_file *);
void ts_array_unmap(ts_array_file *);
/* Array NAME of F into A, set -1 where it is not there and not REQUIRED; (N),
 * or up to RANK_MAX dimensions.  TYPE and SIZE: of its elements in memory.
 * Takes the lock of HDF5, but for close. */
ts_err ts_array_open(ts_array *, const ts_array_file *, const char *name,
                     int rank_max, hid_t type, size_t size, bool required);
void ts_array_close(ts_array *);
/* dataset_npy.c: ts_array_open and _read of NumPy's. */
ts_err ts_array_open_npy(ts_array *, const ts_array_file *, const char *name,
                         int rank_max, bool required);
ts_err ts_array_read_npy(const ts_array_file *, const ts_array *, void *to,
                         int64_t first, int64_t n);
/* Rows [first, first + n) of A. */
ts_err ts_array_read(const ts_array_file *, const ts_array *, void *to,
                     int64_t first, int64_t n);
