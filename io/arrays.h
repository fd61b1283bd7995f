/* arrays.h - NumPy's arrays in files, by their names: the members of an .npz,
 * or PREFIXNAME.npy, of which there is one file an array.
 *
 * Files are mapped, and what is stored in them is read where it lies.  Members
 * that are deflated are unpacked when they are asked for, to a file without a
 * name in TMPDIR (/tmp).  Errors are of code DATA and name file and array.
 * All of it is Local. */
#pragma once

#include "base/config.h"
#include "base/err.h"
#include "io/npy_header.h"

typedef struct ts_arrays ts_arrays;

/* In C's order, of C's byte order, all of its data there. */
typedef struct ts_named_array {
  char *name;       /* as it was asked for; owned */
  const char *path; /* of its file */
  ts_npy is;
  const char *data;
} ts_named_array;

/* The SETS that the files PATHS are of, in their order, each once: paths that
 * ts_arrays_open takes.  To be freed by ts_source_files_free in any case. */
ts_err ts_arrays_sets(ts_strings *sets, const ts_strings *paths);
/* PATH is an .npz, or one of the files of a prefix.  To be closed in any case.
 */
ts_err ts_arrays_open(ts_arrays **, const char *path);
void ts_arrays_close(ts_arrays *);
/* The name of the set for messages. */
const char *ts_arrays_path(const ts_arrays *);
/* Bytes of the files that were looked into. */
int64_t ts_arrays_bytes(const ts_arrays *);
/* NULL: there is none of that name. */
ts_err ts_arrays_find(ts_arrays *, const char *name, const ts_named_array **);
/* Array K of MLPerf's PREFIXsparse_multi_hot.npz; NULL: there is no such file
 * beside the others. */
ts_err ts_arrays_find_multi_hot(ts_arrays *, int32_t k,
                                const ts_named_array **);
/* N elements of SIZE bytes, all 0, to *P, a T**: freed along with the arrays.
 */
ts_err ts_arrays_room(ts_arrays *, void *p, int64_t n, size_t size);
