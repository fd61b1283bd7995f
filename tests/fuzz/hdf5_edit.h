/* hdf5_edit.h - bytes as edits of an HDF5 file: datasets of any type, shape
 * and storage, links of all kinds, attributes, under names that a reader asks
 * for.  So what is tried is this program's reading of whole files; damaged
 * ones are HDF5's own to find. */
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef struct fuzz_names {
  const char *const *links, *const *attributes;
  int n_links, n_attributes;
} fuzz_names;

/* Edits the file at PATH, as the SIZE bytes of DATA say. */
void fuzz_hdf5_edit(const char *path, const uint8_t *data, size_t size,
                    const fuzz_names *);

/* Seals the checkpoint at PATH anew: an edit cuts the seal off, and without one
 * nothing else would be looked at. */
void fuzz_seal(const char *path);
