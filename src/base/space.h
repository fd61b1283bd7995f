/* space.h - room on a disk, asked for before anything is written: HDF5 can't
 * go on, nor close a file, once a write has failed. */
#pragma once

#include <stdint.h>

#include "base/err.h"

/* Reserves the first N_BYTES of FD; its size stays.  Where the file system
 * can't reserve, looks whether as much is free.  A full disk is an error of
 * CODE that names PATH.  Local. */
ts_err ts_reserve(int fd, int64_t n_bytes, const char *path, ts_err code);

/* Whether this process may write files so long (ulimit -f): else an error of
 * CODE, before HDF5 has a file that it could not close.  Local. */
ts_err ts_size_allowed(int64_t n_bytes, const char *path, ts_err code);
