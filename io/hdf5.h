/* hdf5.h - HDF5 behind one lock, errors in our own words.
 *
 * Common builds of HDF5 are not thread-safe: every call of the library is
 * made between ts_hdf5_lock and ts_hdf5_unlock, never across a wait.
 * HDF5's own error stack is not printed.  All of it is Local. */
#pragma once

#include <hdf5.h>

#include "base/dtype.h"
#include "base/err.h"

void ts_hdf5_lock(void);
void ts_hdf5_unlock(void);

/* A call of HDF5 whose result is negative where it fails: a point of
 * base/fault.h.  Under the lock. */
#define TS_HDF5(call) (ts_hdf5_fault() ? -1 : (call))
#ifdef TS_FAULTS
int ts_hdf5_fault(void);
#else
static inline int ts_hdf5_fault(void) {
  return 0;
}
#endif

/* Read-only, with all links looked at: those that leave the file are refused,
 * and groups in groups without end.  ERR: DATA or CKPT. */
ts_err ts_hdf5_open(hid_t *file, const char *path, ts_err code);

/* hdf5_guard.c, under the lock: what is opened there is data of the file
 * itself.  Errors of CODE name PATH and what is refused. */
ts_err ts_hdf5_check_links(hid_t file, const char *path, ts_err code);
/* Dataset NAME: no external or virtual storage, no filters but deflate,
 * shuffle and fletcher32, and no larger than what the file can hold of it.
 * *SET is -1 on an error. */
ts_err ts_hdf5_open_set(hid_t *set, hid_t file, const char *path,
                        const char *name, ts_err code);
/* Attribute NAME of the root as one number of the type AS (H5T_NATIVE_..), as
 * a text of less than SIZE bytes; false where it is not there or not that. */
bool ts_hdf5_get_number(hid_t file, const char *name, hid_t as, void *value);
bool ts_hdf5_get_text(hid_t file, const char *name, char *text, size_t size);

hid_t ts_hdf5_type(ts_dtype); /* little endian file type; bf16 is a 16-bit
                                 custom float, int8 and int4 are bytes; not
                                 to be closed */
/* The groups on the way to dataset NAME; a scalar attribute.  Under the
 * lock; errors are CODE. */
ts_err ts_hdf5_make_groups(hid_t file, const char *name, ts_err code);
ts_err ts_hdf5_put_attr(hid_t file, const char *name, hid_t type,
                        const void *value, ts_err code);
/* Closes a file of the default driver that was written to, and has its space
 * reserved up to the end.  ERR: what went wrong so far; then, or where there
 * is no room (an error of CODE that names PATH), the file's content is lost.
 * Under the lock. */
ts_err ts_hdf5_close(hid_t file, const char *path, ts_err err, ts_err code);
/* Why the HDF5 call before this one failed ("No space left on device"), as
 * far as the system said.  Under the lock. */
const char *ts_hdf5_why(void);
const char *ts_hdf5_version(void);
