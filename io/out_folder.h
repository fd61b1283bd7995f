/* out_folder.h - a folder that is written: OUT.part until it is whole, OUT
 * then. All of it is Local. */
#pragma once

#include <stdbool.h>

#include "base/str.h"

/* A file that is called NAME is one of those that are written there. */
typedef bool (*ts_is_ours)(const char *name);

/* Makes OUT.part, whose name goes to PART, and locks it by *FD; what a killed
 * run has left of it is removed.  USAGE error unless OUT is new or an empty
 * folder, IO where PART is locked or has anything else in it. */
ts_err ts_out_folder(ts_str *part, int *fd, const char *out, ts_is_ours);
/* ERR, of all that was done so far, or that of giving PART its name OUT: then
 * PART and its files are removed.  Resets PART, closes *FD. */
ts_err ts_out_folder_settle(ts_str *part, int *fd, const char *out, ts_is_ours,
                            ts_err err);
