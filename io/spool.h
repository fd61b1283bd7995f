/* spool.h - standard input as a file: samples are read from any place, by
 * every rank, and some of them twice.  Local. */
#pragma once

#include "base/str.h"

/* All of standard input to a new file in TMPDIR (/tmp), *PATH, which is the
 * caller's to remove. */
ts_err ts_spool_stdin(ts_str *path);
