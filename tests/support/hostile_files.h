/* hostile_files.h - HDF5 files as tessera reads them, and edits after which
 * nobody should. */
#pragma once

#include "tests/support/harness.h"
#include "io/hdf5.h"

enum { N = 8 }; /* samples, or weights */

/* Both kinds of file have a "set", which the edits are about: the labels of a
 * data set, the weights of a checkpoint. */
extern const char *hostile_set;

/* A right file at PATH, open. */
hid_t hostile_make(const char *path, bool checkpoint);
/* (ROWS) or (ROWS, COLS) numbers of TYPE. */
void hostile_put(hid_t file, const char *name, hid_t type, int rank,
                 hsize_t rows, hsize_t cols);
/* A dataset in place of the set, of which nothing is written. */
void hostile_replace(hid_t file, hid_t type, int rank, const hsize_t *dims,
                     hid_t storage);

typedef struct hostile_edit {
  void (*edit)(hid_t);
  const char *words; /* of the message */
} hostile_edit;
extern const hostile_edit hostile_edits[];
extern const int hostile_n_edits;
