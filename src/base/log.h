/* log.h - what the user reads: the log on stdout and in <output>/log.
 *
 * Only rank 0 prints, except ts_log_error.  Thread-safe, line by line.
 * All of it is Local. */
#pragma once

#include "base/err.h"

void ts_log_rank(int rank);           /* before anything is printed */
ts_err ts_log_open(const char *path); /* append; rank 0 only, else no-op */
void ts_log_close(void);
void ts_log_quiet(int quiet); /* 1: nothing on stdout, the file goes on */
/* The log goes to stderr instead of stdout, which is for results. */
void ts_log_aside(void);

void ts_info(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void ts_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void ts_warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Progress line: as ts_info, flushed at once. */
void ts_progress(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* "tessera: error: TEXT" on stderr and in the log, from whatever rank. */
void ts_log_error(const char *text);
